"""`ling-bench sweep`: the options, their checks, and their help."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from harness.cli.cold_start import cold_options
from harness.cli.manners import manners_options
from harness.cli.options import CACHE_MODES, SweepOptions, parse_concurrency, parse_note
from harness.cli.presets import PRESET_HELP, with_preset
from harness.cli.running import run_async
from harness.cli.sampling import read_sampling
from harness.cli.sending import workers_options
from harness.cli.sweep_run import SweepRequest, run_sweep
from harness.cli.workload_options import DATASET_NAMES, read_workload, workload_options
from harness.metrics import parse_goodput, parse_percentiles

CACHE_HELP = (
    "cold: cold at the start of a cell, by a nonce before the first prompt token; turns within a session still hit. "
    "warm: every session's opening prompt is sent once before measuring. keep: no nonce, the cache is left as it is."
)

# What may be typed beside --resume; everything else belongs to the plan that the run already has.
RESUME_OPTIONS = ("base_url", "api_key", "headers", "notes", "result_dir", "report_dir", "resume", "as_json")


@click.command("sweep")
@click.option(
    "--concurrency", "--max-concurrency", default="1,8,32", show_default=True,
    help="Levels; one cell each. Under open load: most requests in flight.",
)  # fmt: skip
@click.option("--auto", is_flag=True, help="Search: the knee, or the largest load that meets --goodput.")
@click.option("--auto-max", type=float, default=256, show_default=True, help="Highest load that --auto tries.")
@workers_options
@click.option("--num-runs", type=int, default=1, show_default=True, help="Rounds of every cell, taking turns.")
@click.option("--base-url", "--url", default=None, help="Server, with or without /v1. [env: OPENAI_BASE_URL]")
@click.option("--model", default=None, help="Model to ask; default: the only one served.")
@click.option("--endpoint-type", type=click.Choice(["chat", "completions"]), default="chat", show_default=True)
@click.option("--api-key", envvar="OPENAI_API_KEY", default=None, help="Bearer key; never saved. [env: OPENAI_API_KEY]")
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Extra request header; repeatable.")
@click.option(
    "--dataset-name", "--workload", type=click.Choice(DATASET_NAMES), default="agent", show_default=True,
    help="What to ask.",
)  # fmt: skip
@click.option("--num-prompts", "--request-count", type=int, default=None, help="Measured requests of each cell.")
@click.option("--duration", "duration_s", type=float, default=None, help="Stop asking after this many seconds a cell.")
@click.option(
    "--num-warmups", "--warmup-requests", type=int, default=4, show_default=True, help="Left out of every metric."
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed asks the same.")
@click.option("--cache", type=click.Choice(CACHE_MODES), default="cold", show_default=True, help=CACHE_HELP)
@cold_options
@workload_options
@click.option("--preset", default=None, metavar="NAME", help=PRESET_HELP)
@click.option("--ignore-eos", is_flag=True, help="Send ignore_eos, so that every answer has its full length.")
@click.option("--temperature", type=float, default=0.0, show_default=True)
@click.option("--top-p", type=float, default=None)
@click.option("--top-k", type=int, default=None)
@click.option(
    "--extra-body", "--extra-request-body", default=None, metavar="JSON", help="More fields of every request."
)
@click.option("--goodput", multiple=True, metavar="NAME:MS", help="Objectives, such as ttft:500 tpot:50 e2el:30000.")
@click.option("--metric-percentiles", default="50,90,99", show_default=True)
@click.option("--tokenizer", default=None, metavar="PATH", help="tokenizer.json that sizes prompts and counts outputs.")
@click.option("--max-tokens-total", type=int, default=None, help="Cap on prompt and output tokens of the whole run.")
@click.option("--connect-timeout", "connect_timeout_s", type=float, default=10.0, show_default=True, help="Seconds.")
@click.option("--first-byte-timeout", "first_byte_timeout_s", type=float, default=600.0, show_default=True)
@click.option("--stall-timeout", "stall_timeout_s", type=float, default=120.0, show_default=True)
@click.option("--request-timeout", "request_timeout_s", type=float, default=3600.0, show_default=True)
@manners_options
@click.option("--note", "notes", multiple=True, metavar="KEY=VALUE", help="Record what HTTP cannot show; repeatable.")
@click.option("--result-dir", type=click.Path(path_type=Path, file_okay=False), default=Path("results"))
@click.option("--report-dir", type=click.Path(path_type=Path, file_okay=False), default=Path("reports"))
@click.option("--resume", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Complete this run.")
@click.option("--dry-run", is_flag=True, help="Print the cost in requests and tokens, then stop.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON instead of the table.")
@click.pass_context
def sweep(context: click.Context, /, **given: object) -> int:
    """Measure an endpoint at several concurrency levels.

    Each level is one cell of streamed requests against a cold cache, with warm-up requests that are left out. The table
    goes to stdout, the run folder is its last line; progress goes to stderr.
    """
    request = _request(context, given)
    return run_async(lambda: run_sweep(request))


def _request(context: click.Context, given: Mapping[str, object]) -> SweepRequest:
    """Check what was typed; every mistake is a UsageError before anything is sent."""
    if given["resume"] is not None:
        _refuse_plan_options(context)
    try:
        options = None if given["resume"] is not None else _options(context, given)
        notes = dict(parse_note(text) for text in _texts(given["notes"]))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    own = {name: given[name] for name in RESUME_OPTIONS if name != "notes"}
    return SweepRequest(
        options=options,
        notes=notes,
        argv=tuple(sys.argv[1:]),
        environment=dict(os.environ),
        dry_run=bool(given["dry_run"]),
        **own,  # type: ignore[arg-type]
    )


def _refuse_plan_options(context: click.Context) -> None:
    """A resumed run keeps its plan: say so instead of ignoring what was typed."""
    for name in context.params:
        typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if typed and name not in RESUME_OPTIONS:
            raise click.UsageError(f"--resume keeps the run's own plan; leave --{name.replace('_', '-')} out")


def _options(context: click.Context, given: Mapping[str, object]) -> SweepOptions:
    given = with_preset(given, lambda name: context.get_parameter_source(name) is ParameterSource.COMMANDLINE)
    checked: dict[str, object] = {
        **read_workload(given),
        **_levels(context, given),
        "cold_by": "flush" if given["flush_cache"] else given["cold_by"],
        "sampling": read_sampling(given),
        "goodput": parse_goodput(_texts(given["goodput"])),
        "metric_percentiles": parse_percentiles(str(given["metric_percentiles"])),
    }
    return SweepOptions.from_json({**given, **checked})


def _levels(context: click.Context, given: Mapping[str, object]) -> dict[str, object]:
    """--concurrency: the levels of a closed loop; the most requests in flight of an open load, if it was typed."""
    levels = parse_concurrency(str(given["concurrency"]))
    if given["request_rates"] is None and given["arrivals"] is None:
        return {"concurrency": levels}
    if context.get_parameter_source("concurrency") is not ParameterSource.COMMANDLINE:
        return {"concurrency": (1,), "in_flight_cap": None}
    if len(levels) > 1:
        raise ValueError("under open load --max-concurrency is one number: the most requests in flight")
    return {"concurrency": levels, "in_flight_cap": levels[0]}


def _texts(value: object) -> Sequence[str]:
    assert isinstance(value, tuple)
    return [str(item) for item in value]
