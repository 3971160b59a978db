"""What a sweep's plan is made from beside its options: traces, profiles, and the measured length of prompts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import click

from harness.cli.counting import Counting
from harness.cli.making import PromptProgress, WatchedFamily
from harness.cli.options import MIX, TRACE, SweepOptions, parse_positive
from harness.drive.lengths import Sizing
from workloads.agent_profile import AgentProfile
from workloads.arrivals import Arrivals, Ramp
from workloads.mix import MixedClass, MixFamily
from workloads.options import WorkloadOptions
from workloads.plan import Json
from workloads.readers import READERS, guess_format, read_trace
from workloads.registry import FAMILIES, session_family
from workloads.replay import ReplayOptions, trace_family
from workloads.sessions import SessionFamily, SessionGenerator
from workloads.trace import Trace

CLASS_SIZES = ("input_tokens", "output_tokens", "turns", "think_time_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """trace, profile: read from the files of the options. sizing: how exact lengths are made, None if not wanted.

    progress: is told of prompts as they are made, None for nobody.
    """

    trace: Trace | None = None
    profile: AgentProfile | None = None
    sizing: Sizing | None = None
    progress: PromptProgress | None = None


NO_MATERIAL = Material()


def load_material(options: SweepOptions) -> Material:
    """Read the files that the options name; UsageError if one cannot be read, or cannot have the lengths asked for."""
    trace = None
    if options.dataset_path is not None:
        trace = load_trace(Path(options.dataset_path), options.dataset_format, skip_bad_rows=options.skip_bad_rows)
        if options.exact_lengths and any(request.prompt is not None for request in trace.requests):
            raise click.UsageError(
                f"--exact-lengths: {options.dataset_path} has texts of its own, which are sent as they are;"
                " traces of lengths alone can have them exact"
            )
    profile = None if options.profile is None else load_profile(Path(options.profile))
    return Material(trace=trace, profile=profile)


def load_trace(path: Path, format_name: str | None, *, skip_bad_rows: bool) -> Trace:
    """The trace of a file, or of all the files of a folder that look like one format; UsageError otherwise."""
    files = (
        [path] if path.is_file() else sorted(each for each in path.glob("*") if each.is_file()) if path.is_dir() else []
    )
    try:
        texts = [(each.name, each.read_text(encoding="utf-8-sig")) for each in files]
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: {error}") from None
    if format_name is None:
        found = [(name, guess_format(text)) for name, text in texts]
        format_name = next((each for _, each in found if each is not None), None)
        texts = [text for text, (_, each) in zip(texts, found, strict=True) if each == format_name]
    if not texts or format_name is None:
        raise click.UsageError(f"{path}: no file in one of the formats {', '.join(READERS)}")
    try:
        trace = read_trace(texts, format_name, skip_bad_rows=skip_bad_rows)
    except ValueError as error:
        raise click.UsageError(f"{error} (--skip-bad-rows leaves such rows out)") from None
    if trace.bad_rows:
        click.echo(f"{path}: {len(trace.bad_rows)} bad rows left out, the first at {trace.bad_rows[0]}", err=True)
    return trace


def load_profile(path: Path) -> AgentProfile:
    """A profile as `workload fit` writes it; UsageError otherwise."""
    try:
        return AgentProfile.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--agent-profile {path}: {error}") from None


def make_generator(
    options: SweepOptions, counting: Counting, material: Material, *, requests: int | None, arrivals: Arrivals | None
) -> SessionGenerator:
    """The plan of the options' workload; ValueError on options that make no sense for it."""
    workload = WorkloadOptions(
        seed=options.seed,
        requests=requests,
        highest_concurrency=1 if options.open_load else max(options.concurrency),
        warmups=options.num_warmups,
        warm_cache=options.cache == "warm",
        input_tokens=options.input_tokens,
        output_tokens=options.output_tokens,
        turns=options.turns,
        think_time_s=options.think_time_s,
        recorded_think=options.recorded_think,
        sub_agents=options.sub_agents,
        compaction=options.compaction,
        whole_sessions=options.whole_sessions,
        live=options.live,
        profile=material.profile,
        ruler=None if material.sizing is None else material.sizing.ruler,
        arrivals=arrivals,
    )
    family = _family(options, workload, counting, material)
    if material.progress is None:
        return SessionGenerator(family, workload, counting.count)
    length = "" if options.input_tokens is None else f", {options.input_tokens:,} tokens"
    total = None if requests is None else requests + options.num_warmups
    material.progress.started(f"{options.dataset_name}{length}", total)
    return SessionGenerator(WatchedFamily(family, material.progress), workload, counting.count)


def _family(options: SweepOptions, workload: WorkloadOptions, counting: Counting, material: Material) -> SessionFamily:
    if options.dataset_name == TRACE:
        assert material.trace is not None
        replay = ReplayOptions(timed=options.timed, speed=options.speed, limit_s=options.trace_seconds)
        chat = options.endpoint_type == "chat"
        return trace_family(material.trace, workload, replay, counting.count, chat=chat)
    if options.dataset_name == MIX:
        return _mixed(options, workload, counting)
    return session_family(options.dataset_name, workload, counting.count)


def arrivals_of(options: SweepOptions, rate: str) -> Arrivals:
    """The arrivals of one --request-rate; ValueError if they make no sense."""
    ramp = options.ramp
    return Arrivals(
        rate_per_s=parse_positive(rate, "--request-rate"),
        burstiness=parse_positive(options.burstiness, "--burstiness"),
        ramp=None if ramp is None else _ramp(ramp),
        horizon_s=options.duration_s,
    )


def _ramp(given: Mapping[str, Json]) -> Ramp:
    end, seconds = given["end_per_s"], given["seconds"]
    if not isinstance(end, int | float) or not isinstance(seconds, int | float):
        raise ValueError("a ramp needs numbers to end at")
    return Ramp(end_per_s=float(end), seconds=float(seconds), shape=str(given["shape"]))


def _mixed(options: SweepOptions, workload: WorkloadOptions, counting: Counting) -> SessionFamily:
    """The classes of --mix, each with its own sizes where it names any."""
    refused = [name for name in ("input_tokens", "output_tokens", "turns") if getattr(options, name) is not None]
    if refused:
        raise ValueError("in a mix every class has its own sizes: name them in a --mix-file")
    classes = [_mixed_class(each, workload, counting) for each in options.mix]
    return MixFamily(classes)


def _mixed_class(given: Mapping[str, Json], workload: WorkloadOptions, counting: Counting) -> MixedClass:
    name = str(given.get("workload", given.get("name")))
    if name not in FAMILIES:
        raise ValueError(f"{name!r} is no workload; there are {', '.join(FAMILIES)}")
    unknown = sorted(given.keys() - {"name", "workload", "weight", *CLASS_SIZES})
    weight = given.get("weight", 1.0)
    if unknown or isinstance(weight, bool) or not isinstance(weight, int | float) or math.isinf(weight):
        raise ValueError(f"class {name}: {', '.join(unknown) or 'weight'} is not understood")
    sizes = {size: given[size] for size in CLASS_SIZES if size in given}
    own = replace(workload, arrivals=None, **sizes)  # type: ignore[arg-type]
    family = FAMILIES[name].make(own, counting.count)
    turns = family.default_turns if own.turns is None else own.turns
    return MixedClass(name=str(given.get("name", name)), weight=float(weight), family=family, turns=turns)
