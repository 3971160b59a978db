"""`ling-bench report` and `ling-bench list`: what can be had from run folders alone."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.exits import Exit, NothingMeasured
from harness.store import RunFolder, RunListing, StoreError, list_runs


@click.command("report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--report-dir", type=click.Path(path_type=Path, file_okay=False), default=Path("reports"))
@click.option("--parquet", is_flag=True, help="Every run's requests as Parquet too (extra: ling-bench[parquet]).")
def report(runs: tuple[Path, ...], report_dir: Path, parquet: bool) -> int:
    """Rebuild the tables, plots and page of RUNS from their records alone; several runs share one page.

    The page's path is the last line on stdout.
    """
    from harness.report.build import build_report

    folder = report_dir / "+".join(path.resolve().name for path in runs)
    try:
        files = build_report(runs, folder)
        if parquet:
            _write_parquet(runs, folder)
    except StoreError as error:
        raise NothingMeasured(str(error)) from None
    click.echo(str(files.index_html))
    return Exit.PASS


def _write_parquet(runs: tuple[Path, ...], folder: Path) -> None:
    """One file per run beside the page, each named on stderr."""
    from harness.report.parquet import NoParquet, write_parquet

    for path in runs:
        file = folder / f"{path.resolve().name}.parquet"
        try:
            rows = write_parquet(RunFolder.open(path), file)
        except NoParquet as error:
            raise click.UsageError(f"--parquet: {error}") from None
        click.echo(f"{rows:,} requests: {file}", err=True)


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
