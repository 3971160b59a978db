"""`ling-bench selftest`: the options, their checks, and their help."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from harness.checks.check import PROMPTS_OF_BUDGET
from harness.cli.exits import Exit
from harness.cli.running import run_async
from harness.cli.selftest_plan import (
    HEALTHY,
    LOOKING,
    QUICK,
    QUICK_HEALTHY,
    Planted,
    chosen,
    modes,
    planted,
    variants,
)
from harness.cli.selftest_run import SelftestRequest, cost_lines, run_selftest
from harness.cli.trials import default_jobs


@click.command("selftest")
@click.option(
    "--faults", default=None, metavar="CODES", help="Plant these alone: K01,K05 or K05:write; no healthy ones."
)
@click.option("--quick", is_flag=True, help="Twelve faults and one healthy variant.")
@click.option("--full", is_flag=True, help="Every check looks at every fault, not only those that should see it.")
@click.option(
    "--healthy/--no-healthy", default=None, help="Ask healthy variants too, for false alarms; default: unless --faults."
)
@click.option(
    "--budget", type=click.Choice(list(PROMPTS_OF_BUDGET)), default="small", show_default=True,
    help="Of every check; more sees smaller faults.",
)  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(min=1), default=default_jobs, show_default="2 where there are two processors",
    help="Engines asked at once.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--result-dir", type=click.Path(path_type=Path, file_okay=False), default=Path("results"))
@click.option("--report-dir", type=click.Path(path_type=Path, file_okay=False), default=Path("reports"))
@click.option("--dry-run", is_flag=True, help="Print what would be planted and who would look, then stop.")
@click.option("--json", "as_json", is_flag=True, help="Print the matrix as JSON instead of the table.")
def selftest(**given: object) -> int:
    """Plant known faults in the embedded engine and see which checks find them, over HTTP alone.

    A fault is detected when a check fails it. Exit code: 0 every fault of a size that has to be found (gross, medium,
    accounting) was detected and no healthy variant failed, 1 otherwise, 4 a check broke.
    """
    request = _request(given)
    if given["dry_run"]:
        click.echo("\n".join(cost_lines(request.faults, request.healthy)))
        return Exit.PASS
    return run_async(lambda: run_selftest(request))


def _healthy(*, quick: bool) -> tuple[Planted, ...]:
    """In a hurry one variant, and the checks that look for faults."""
    return variants(QUICK_HEALTHY, LOOKING) if quick else variants(tuple(HEALTHY))


def _request(given: Mapping[str, object]) -> SelftestRequest:
    """Check what was typed; every mistake is a UsageError before anything is started."""
    names, quick = given["faults"], bool(given["quick"])
    if names is not None and quick:
        raise click.UsageError("--faults and --quick both choose the faults; give one of them")
    try:
        wanted = (
            chosen([text.strip() for text in str(names).split(",")])
            if names is not None
            else QUICK if quick else modes()
        )  # fmt: skip
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    healthy = names is None if given["healthy"] is None else bool(given["healthy"])
    result_dir, report_dir = given["result_dir"], given["report_dir"]
    assert isinstance(result_dir, Path) and isinstance(report_dir, Path)
    return SelftestRequest(
        faults=tuple(planted(name, full=bool(given["full"])) for name in wanted),
        healthy=_healthy(quick=quick) if healthy else (),
        budget=str(given["budget"]),
        seed=int(str(given["seed"])),
        result_dir=result_dir,
        report_dir=report_dir,
        as_json=bool(given["as_json"]),
        argv=tuple(sys.argv[1:]),
        jobs=int(str(given["jobs"])),
    )
