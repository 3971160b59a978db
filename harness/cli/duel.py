"""`ling-bench duel`: the same plan against two endpoints, cells taking turns."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from harness.cli.compare import asked_for, comparison_options
from harness.cli.duel_options import SIDES, SideOptions, endpoint_options, side_options
from harness.cli.duel_run import DuelRequest, run_duel
from harness.cli.memory import parse_contexts
from harness.cli.options import CACHE_MODES, SweepOptions, parse_concurrency, parse_note
from harness.cli.presets import typed_sampling
from harness.cli.running import run_async
from harness.cli.sampling import read_sampling
from harness.metrics import parse_goodput, parse_percentiles
from workloads import WORKLOADS
from workloads.registry import EXACT


@click.command("duel")
@endpoint_options
@click.option("--concurrency", "--max-concurrency", default="1,8,32", show_default=True, help="Levels.")
@click.option(
    "--context", "contexts", default=None, metavar="LENGTHS", help="Prompt lengths aimed at, such as 2K,8K,32K."
)
@click.option(
    "--rounds", type=click.IntRange(min=1), default=2, show_default=True, help="Cells a side at each point: A B B A."
)
@click.option(
    "--dataset-name", "--workload", type=click.Choice(sorted(WORKLOADS)), default="agent", show_default=True,
    help="What to ask.",
)  # fmt: skip
@click.option("--num-prompts", "--request-count", type=int, default=None, help="Measured requests of each cell.")
@click.option(
    "--num-warmups", "--warmup-requests", type=int, default=4, show_default=True, help="Left out of every metric."
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed asks the same.")
@click.option("--cache", type=click.Choice(CACHE_MODES), default="cold", show_default=True, help="As in sweep.")
@click.option(
    "--output-len", "--random-output-len", "output_tokens", type=int, default=None, help="Output tokens at most."
)
@click.option(
    "--exact-lengths", is_flag=True,
    help=f"{', '.join(EXACT)}: prompts of exactly the asked length by side A's own count.",
)  # fmt: skip
@click.option("--turns", type=int, default=None, help="agent: turns of each session within a cell.")
@click.option("--think-time", "think_time_s", type=float, default=0.0, help="agent: median seconds before a turn.")
@click.option("--ignore-eos", is_flag=True, help="Send ignore_eos, so that every answer has its full length.")
@click.option("--temperature", type=float, default=0.0, show_default=True)
@click.option("--top-p", type=float, default=None)
@click.option("--top-k", type=int, default=None)
@click.option(
    "--extra-body", "--extra-request-body", default=None, metavar="JSON", help="More fields of every request."
)
@click.option("--goodput", multiple=True, metavar="NAME:MS", help="Objectives, such as ttft:500 tpot:50 e2el:30000.")
@click.option("--metric-percentiles", default="50,90,99", show_default=True)
@click.option("--note", "notes", multiple=True, metavar="KEY=VALUE", help="Record what HTTP cannot show; repeatable.")
@click.option("--result-dir", type=click.Path(path_type=Path, file_okay=False), default=Path("results"))
@click.option("--dry-run", is_flag=True, help="Print the cost in requests and tokens, then stop.")
@comparison_options
def duel(**given: object) -> int:
    """Ask the same of two endpoints, cells taking turns (A B B A), and compare them.

    --a and --b name the servers. Both get the same texts at every --context and --concurrency; lengths are stated in
    each model's own tokens and in characters. A side whose cache never hits is refused unless --anyway. Each side
    leaves an ordinary run folder; `ling-bench compare` can put them side by side again. The page's path is the last
    line on stdout.
    """
    sides = tuple(side_options(side, given, typed_sampling(given)) for side in SIDES)
    request = _request(given, sides)
    return run_async(lambda: run_duel(request))


def _request(given: Mapping[str, object], sides: tuple[SideOptions, ...]) -> DuelRequest:
    """Check what was typed; every mistake is a UsageError before anything is sent."""
    asked = asked_for(
        given,
        presets={side.letter: side.preset for side in sides if side.preset is not None},
        prices={side.letter: side.price_per_hour for side in sides if side.price_per_hour is not None},
        limits=(),
    )
    contexts, rounds, notes, result_dir = (given[name] for name in ("contexts", "rounds", "notes", "result_dir"))
    assert isinstance(rounds, int) and isinstance(notes, tuple) and isinstance(result_dir, Path)
    try:
        plan = _plan(given)
        noted = dict(parse_note(str(text)) for text in notes)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return DuelRequest(
        sides=sides,
        plan=plan,
        contexts=() if contexts is None else parse_contexts(str(contexts)),
        rounds=rounds,
        asked=asked,
        notes=noted,
        result_dir=result_dir,
        dry_run=given["dry_run"] is True,
        argv=tuple(sys.argv[1:]),
    )


def _plan(given: Mapping[str, object]) -> SweepOptions:
    """The part of the plan that both sides share."""
    goodput = given["goodput"]
    assert isinstance(goodput, tuple)
    checked: dict[str, object] = {
        "concurrency": parse_concurrency(str(given["concurrency"])),
        "sampling": read_sampling(given),
        "goodput": parse_goodput([str(each) for each in goodput]),
        "metric_percentiles": parse_percentiles(str(given["metric_percentiles"])),
    }
    own = ("dataset_name", "num_prompts", "num_warmups", "seed", "cache", "output_tokens", "turns", "think_time_s",
           "exact_lengths")  # fmt: skip
    return SweepOptions.from_json({**{name: given[name] for name in own}, **checked})
