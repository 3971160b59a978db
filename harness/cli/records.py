"""`ling-bench report` and `ling-bench list`: what can be had from run folders alone."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.exits import Exit, NothingMeasured
from harness.store import RunFolder, RunListing, StoreError, list_runs


@click.command("report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--report-dir", type=click.Path(path_type=Path, file_okay=False), default=Path("reports"))
def report(runs: tuple[Path, ...], report_dir: Path) -> int:
    """Rebuild the tables, plots and page of RUNS from their records alone; several runs share one page.

    The page's path is the last line on stdout.
    """
    from harness.report.build import build_report
    from harness.report.derive import derive

    try:
        for path in runs:
            with RunFolder.open(path) as run:
                derive(run)
        files = build_report(runs, report_dir / "+".join(path.resolve().name for path in runs))
    except StoreError as error:
        raise NothingMeasured(str(error)) from None
    click.echo(str(files.index_html))
    return Exit.PASS


@click.command("list")
@click.option("--result-dir", type=click.Path(path_type=Path, file_okay=False), default=Path("results"))
def list_command(result_dir: Path) -> int:
    """Show the runs of a result folder, oldest first."""
    listings = list_runs(result_dir) if result_dir.is_dir() else []
    if not listings:
        click.echo(f"no runs in {result_dir}", err=True)
    for listing in listings:
        click.echo(_line(listing))
    return Exit.PASS


def _line(listing: RunListing) -> str:
    if listing.info is None:
        return f"{listing.path.name}  unreadable: {listing.error}"
    cells = f"{len(listing.finished)} cells"
    if listing.unfinished:
        cells += f", {len(listing.unfinished)} unfinished"
    target = listing.info.target
    return f"{listing.path.name}  {target.model} at {target.base_url} ({target.chosen_by})  {cells}"
