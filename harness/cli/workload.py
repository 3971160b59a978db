"""`ling-bench workload`: what may be asked, looked at before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import TypeVar

import click
import orjson

from harness.cli.counting import Counting, by_characters, by_tokenizer_file
from harness.cli.exits import Exit
from harness.cli.material import Material, load_material, load_trace, make_generator
from harness.cli.options import SweepOptions
from harness.cli.workload_options import DATASET_NAMES, read_workload, workload_options
from workloads.agent_profile import AgentProfile, recorded_profile
from workloads.cost import planned_asks
from workloads.exporting import EXPORTS
from workloads.plan import Ask, ChatPrompt, Phase, Prompt
from workloads.quantiles import QuantileTable
from workloads.recording import agent_trace, plan_trace
from workloads.registry import FAMILIES
from workloads.sessions import SessionGenerator
from workloads.trace_stats import TraceStats, fit_profile, plain_text, trace_stats

Command = TypeVar("Command", bound=Callable[..., object])
SHOWN_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


@click.group("workload")
def workload() -> None:
    """List, show, describe, export and fit what may be asked."""


def _choice(command: Command) -> Command:
    """The options that choose a workload."""
    for option in reversed(
        (
            click.argument("dataset_name", type=click.Choice(DATASET_NAMES), default="agent"),
            click.option("--num-prompts", type=int, default=64, show_default=True, help="Requests looked at."),
            click.option("--seed", type=int, default=0, show_default=True),
            click.option(
                "--tokenizer", default=None, metavar="PATH", help="tokenizer.json; else 4 characters a token."
            ),
        )
    ):
        command = option(command)
    return workload_options(command)


@workload.command("list")
def list_command() -> int:
    """Name every workload and every format of traces and datasets."""
    for name, entry in FAMILIES.items():
        click.echo(f"{name:<10} {entry.summary}")
    click.echo(f"{'trace':<10} a trace or dataset from --dataset-path: {', '.join(DATASET_NAMES[len(FAMILIES) + 1 :])}")
    return Exit.PASS


@workload.command("show")
@_choice
@click.option("--session", type=int, default=0, show_default=True, help="Which session.")
def show(session: int, **given: object) -> int:
    """Print one session as text: its last request, turn marks where each request ends."""
    plan, _ = _plan(given)
    asks = [ask for ask in _asks(plan, given) if ask.phase is Phase.MEASURE]
    names = list(dict.fromkeys(ask.session for ask in asks))
    if not 0 <= session < len(names):
        raise click.UsageError(f"--session: there are {len(names)} sessions in {len(asks)} requests, from 0")
    own = [ask for ask in asks if ask.session == names[session]]
    for ask in own:
        click.echo(
            f"=== request {ask.turn}: about {ask.expected_prompt_tokens} prompt tokens, {ask.max_tokens} to come"
        )
    click.echo(_readable(own[-1].prompt))
    return Exit.PASS


@workload.command("stats")
@_choice
@click.option("--sessions", type=int, default=500, show_default=True, help="agent: whole sessions, lengths alone.")
@click.option(
    "--against", default=None, metavar="PATH", help="Compare with this trace; agent: with the recorded tables."
)
@click.option("--picture", type=click.Path(path_type=Path), default=None, help="Draw both distributions here.")
@click.option("--json", "as_json", is_flag=True)
def stats(sessions: int, against: str | None, picture: Path | None, as_json: bool, **given: object) -> int:
    """Describe a workload or a trace, beside another trace or the recorded sessions."""
    ours = _stats_of(sessions, given)
    other = _other(against, given)
    if picture is not None:
        from harness.report.workload_figure import draw_comparison

        picture.write_bytes(draw_comparison(ours, other, picture.suffix.lstrip(".") or "png"))
    if as_json:
        content = {**ours.as_json(), "against": None if other is None else other.as_json()}
        click.echo(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode())
    else:
        click.echo(stats_table(ours, other))
    return Exit.PASS


@workload.command("export")
@_choice
@click.option("--format", "format_name", type=click.Choice(sorted(EXPORTS)), default="openai", show_default=True)
@click.option("--output", type=click.Path(path_type=Path), required=True)
def export(format_name: str, output: Path, **given: object) -> int:
    """Write the requests of a workload in a public format."""
    plan, counting = _plan(given)
    trace = plan_trace(plan, _asks(plan, given), counting.count)
    try:
        lines = list(EXPORTS[format_name](trace.requests))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    click.echo(f"{len(lines)} requests in {output}")
    return Exit.PASS


@workload.command("fit")
@click.argument("trace", type=click.Path(path_type=Path, exists=True))
@click.option("--output", type=click.Path(path_type=Path), required=True, help="Profile for --agent-profile.")
@click.option("--skip-bad-rows", is_flag=True)
@click.option("--tokenizer", default=None, metavar="PATH")
def fit(trace: Path, output: Path, skip_bad_rows: bool, tokenizer: str | None) -> int:
    """Fit the agent workload's distributions to a trace of sessions."""
    read = load_trace(trace, None, skip_bad_rows=skip_bad_rows)
    try:
        profile = fit_profile(read, _counting(tokenizer).count)
    except ValueError as error:
        raise click.UsageError(f"{trace} does not tell enough of its sessions: {error}") from None
    output.write_bytes(orjson.dumps(profile.as_json(), option=orjson.OPT_INDENT_2))
    click.echo(f"{profile.source}: {output}")
    return Exit.PASS


def stats_table(ours: TraceStats, other: TraceStats | AgentProfile | None) -> str:
    """Every quantity at three percentiles; with something to compare, its value and the difference."""
    hit = ours.infinite_cache_token_hit
    lines = [
        f"{ours.source}: {ours.requests:,} requests, {ours.sessions:,} sessions",
        f"infinite-cache token hit {'not known' if hit is None else f'{hit:.4f}'}",
    ]
    theirs = tables_of(other)
    for name, table in ours.tables.items():
        cells = []
        for word, share in SHOWN_SHARES.items():
            value, reference = table.at(share), None if name not in theirs else theirs[name].at(share)
            against = "" if not reference else f" ({reference:,.4g}, {value / reference - 1:+.0%})"
            cells.append(f"{word} {value:,.4g}{against}")
        lines.append(f"{name:<42} {'  '.join(cells)}")
    return "\n".join(lines)


def tables_of(other: TraceStats | AgentProfile | None) -> Mapping[str, QuantileTable]:
    """The tables to compare with, by name."""
    if other is None:
        return {}
    return other.tables if isinstance(other, TraceStats) else other.by_name()


def _stats_of(sessions: int, given: Mapping[str, object]) -> TraceStats:
    options, material, counting = _read(given)
    if material.trace is not None:
        return trace_stats(material.trace, counting.count)
    if options.dataset_name == "agent" and not options.contexts and options.input_tokens is None:
        profile = recorded_profile() if material.profile is None else material.profile
        return trace_stats(agent_trace(profile, options.seed, sessions), counting.count)
    plan, counting = _plan(given)
    return trace_stats(plan_trace(plan, _asks(plan, given), counting.count), counting.count)


def _other(against: str | None, given: Mapping[str, object]) -> TraceStats | AgentProfile | None:
    options, material, counting = _read(given)
    if against is not None:
        return trace_stats(load_trace(Path(against), None, skip_bad_rows=options.skip_bad_rows), counting.count)
    if options.dataset_name != "agent":
        return None
    return recorded_profile() if material.profile is None else material.profile


def _read(given: Mapping[str, object]) -> tuple[SweepOptions, Material, Counting]:
    try:
        fields = read_workload(given)
        options = SweepOptions.from_json(
            {**fields, "concurrency": (1,), "seed": given["seed"], "num_prompts": given["num_prompts"]}
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    tokenizer = given["tokenizer"]
    return options, load_material(options), _counting(None if tokenizer is None else str(tokenizer))


def _plan(given: Mapping[str, object]) -> tuple[SessionGenerator, Counting]:
    options, material, counting = _read(given)
    if options.exact_lengths:
        raise click.UsageError("--exact-lengths needs a server that counts; use it with sweep")
    try:
        return make_generator(options, counting, material, requests=options.num_prompts, arrivals=None), counting
    except ValueError as error:
        raise click.UsageError(f"{options.dataset_name}: {error}") from None


def _asks(plan: SessionGenerator, given: Mapping[str, object]) -> list[Ask]:
    limit = given["num_prompts"]
    assert isinstance(limit, int)
    return list(islice((ask for ask in planned_asks(plan) if ask.phase is Phase.MEASURE), limit))


def _counting(tokenizer: str | None) -> Counting:
    return by_characters() if tokenizer is None else by_tokenizer_file(tokenizer)


def _readable(prompt: Prompt) -> str:
    if not isinstance(prompt, ChatPrompt):
        return plain_text(prompt)
    head = [f"[tools] {', '.join(_tool_name(tool) for tool in prompt.tools)}"] if prompt.tools else []
    said = [
        f"[{message.role}] {message.content or ''}"
        + "".join(f"\n    -> {call.name}({call.arguments})" for call in message.tool_calls)
        for message in prompt.messages
    ]
    return "\n\n".join([*head, *said])


def _tool_name(tool: Mapping[str, object]) -> str:
    function = tool.get("function")
    return str(function.get("name")) if isinstance(function, Mapping) else "?"
