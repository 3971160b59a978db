"""The options that say what is asked and when, shared by the commands that ask."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import click

from harness.cli.memory import parse_contexts
from harness.cli.options import MIX, TRACE, parse_mix, parse_rates
from workloads.plan import Json
from workloads.readers import READERS
from workloads.registry import EXACT, FAMILIES

Command = TypeVar("Command", bound=Callable[..., object])

DATASET_NAMES = (*FAMILIES, TRACE, *READERS)
CONTENT = (
    click.option(
        "--input-len", "--random-input-len", "input_tokens", type=int, default=None,
        help="Prompt tokens aimed at.",
    ),
    click.option(
        "--context", "contexts", default=None, metavar="LENGTHS",
        help="Several prompt lengths: 8K,32K,262144.",
    ),
    click.option(
        "--output-len", "--random-output-len", "output_tokens", type=int, default=None,
        help="Output tokens asked for at most.",
    ),
    click.option(
        "--exact-lengths", is_flag=True,
        help=f"{', '.join(EXACT)}, traces of lengths: prompts of exactly the asked length.",
    ),
    click.option("--turns", type=int, default=None, help="agent: turns of each session within a cell."),
    click.option(
        "--think-time", "think_time", default="0", metavar="SECONDS",
        help="agent: median pause before a turn, or 'recorded'.",
    ),
    click.option(
        "--sub-agents", type=float, default=0.0,
        help="agent: share of tool steps that send two sub-agents out.",
    ),
    click.option(
        "--compaction", type=float, default=None,
        help="agent: share of steps that summarise the context.",
    ),
    click.option("--whole-sessions", is_flag=True, help="agent: sessions from their first call to their last."),
    click.option("--live", is_flag=True, help="agent, traces: the model's own answers are the assistant's turns."),
    click.option("--agent-profile", "profile", default=None, metavar="FILE", help="agent: made by 'workload fit'."),
    click.option(
        "--mix", default=None, metavar="NAME=WEIGHT,...",
        help="Several workloads at once: agent=0.7,text=0.3.",
    ),
    click.option(
        "--mix-file", default=None, metavar="FILE",
        help="The same from a TOML file with sizes, see the docs.",
    ),
)  # fmt: skip
TRACES = (
    click.option(
        "--dataset-path",
        default=None,
        metavar="PATH",
        help="Trace or dataset to send; a file or a folder.",
    ),
    click.option("--skip-bad-rows", is_flag=True, help="Leave out rows that cannot be read, and count them."),
    click.option("--trace-seconds", type=float, default=None, help="Only the first so many seconds of a trace."),
)
ARRIVALS = (
    click.option(
        "--request-rate", "request_rates", default=None, metavar="RATES",
        help="Open load: requests a second, or inf; one cell each.",
    ),
    click.option("--burstiness", default="1", show_default=True, help="1 Poisson, below 1 burstier, inf constant."),
    click.option(
        "--arrivals", type=click.Choice(["trace"]), default=None, help="trace: requests are due at the trace's times."
    ),
    click.option("--speed", type=float, default=1.0, show_default=True, help="Divides a trace's times."),
    click.option(
        "--ramp-up-strategy", type=click.Choice(["linear", "exponential"]), default="linear", show_default=True
    ),
    click.option(
        "--ramp-up-end-rps", "ramp_end", type=float, default=None,
        help="Rate to ramp to from --request-rate.",
    ),
    click.option(
        "--ramp-up-seconds", "ramp_seconds", type=float, default=60.0, show_default=True,
        help="Time it takes.",
    ),
)  # fmt: skip


PLAIN = (
    "input_tokens", "output_tokens", "exact_lengths", "turns", "sub_agents", "compaction", "whole_sessions", "live",
    "profile", "dataset_path", "skip_bad_rows", "trace_seconds", "burstiness", "speed",
)  # fmt: skip


def workload_options(command: Command) -> Command:
    """Add the options of content, traces and arrivals to a command."""
    for option in reversed((*CONTENT, *TRACES, *ARRIVALS)):
        command = option(command)
    return command


def read_workload(given: Mapping[str, object]) -> dict[str, object]:
    """The options above as fields of SweepOptions; ValueError or UsageError says which makes no sense."""
    name, mix = str(given["dataset_name"]), _mix(given)
    if mix:
        name = MIX
    chosen_format = name if name in READERS else None
    if given["dataset_path"] is not None or chosen_format is not None:
        name = TRACE
    rates = given["request_rates"]
    return {
        **{field: given[field] for field in PLAIN},
        **_think(str(given["think_time"])),
        "dataset_name": name,
        "dataset_format": chosen_format,
        "mix": mix,
        "contexts": () if given["contexts"] is None else parse_contexts(str(given["contexts"])),
        "request_rates": () if rates is None else parse_rates(str(rates)),
        "timed": given["arrivals"] == "trace",
        "ramp": _ramp(given),
    }


def _think(text: str) -> dict[str, object]:
    if text == "recorded":
        return {"recorded_think": True}
    try:
        return {"think_time_s": float(text)}
    except ValueError:
        raise ValueError(f"--think-time: {text!r} is neither a number of seconds nor 'recorded'") from None


def _ramp(given: Mapping[str, object]) -> Mapping[str, object] | None:
    if given["ramp_end"] is None:
        return None
    return {"shape": given["ramp_up_strategy"], "end_per_s": given["ramp_end"], "seconds": given["ramp_seconds"]}


def _mix(given: Mapping[str, object]) -> tuple[Mapping[str, Json], ...]:
    if given["mix"] is not None and given["mix_file"] is not None:
        raise ValueError("give --mix or --mix-file, not both")
    if given["mix_file"] is not None:
        return read_mix_file(Path(str(given["mix_file"])))
    return () if given["mix"] is None else parse_mix(str(given["mix"]))


def read_mix_file(path: Path) -> tuple[Mapping[str, Json], ...]:
    """The [[class]] tables of a TOML file; ValueError if it cannot be read or has none."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"--mix-file {path}: {error}") from None
    classes = content.get("class")
    if not isinstance(classes, list) or not classes or not all(isinstance(each, dict) for each in classes):
        raise ValueError(f"--mix-file {path}: needs one or more [[class]] tables")
    return tuple(classes)
