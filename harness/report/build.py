"""A report from run folders alone: tables, figures and pages into one folder."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.report import style
from harness.report.deployments import published_tables
from harness.report.derive import RunData, RunSummary, load_run, write_summary
from harness.report.figures import Drawing, draw_all
from harness.report.page import Picture, render_html, render_markdown
from harness.report.tables import Table, run_tables
from harness.store import RunFolder, uncollected

# Rounds of a check are asked one by one: their throughput means nothing, and their verdicts say the rest.
CHECK_COMMANDS = frozenset({"check", "selftest"})
GATE_COMMAND = "gate"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """Where the parts of a report were written."""

    index_html: Path
    index_md: Path
    csv: tuple[Path, ...]
    figures: tuple[Path, ...]


@uncollected()
def build_report(
    runs: Sequence[Path | RunData], out_dir: Path, percentiles: Sequence[float] | None = None
) -> ReportFiles:
    """Derive each run anew from its records, unless it was just now, and write one report over all of them.

    `percentiles` win over those the runs were made with. Raises StoreError for a folder that is not a run, ValueError
    for no run at all.
    """
    if not runs:
        raise ValueError("a report needs at least one run")
    loaded = [run if isinstance(run, RunData) else _derived(run, percentiles) for run in runs]
    summaries = [each.summary for each in loaded]
    out_dir.mkdir(parents=True, exist_ok=True)
    measured = [each for each in loaded if _measured(each.summary)]
    measured_summaries = [each.summary for each in measured]
    tables = (*run_tables(measured_summaries), *published_tables(measured_summaries)) if measured else ()
    drawings = draw_all(measured) if measured else []
    figures = [path for drawing in drawings for path in write_figure(drawing, out_dir)]
    pictures = [picture_of(drawing, out_dir) for drawing in drawings]
    index_html, index_md = out_dir / "index.html", out_dir / "index.md"
    index_html.write_text(render_html(summaries, tables, pictures), encoding="utf-8")
    index_md.write_text(render_markdown(summaries, tables, pictures), encoding="utf-8")
    tables_csv = (*(write_csv(table, out_dir) for table in tables), _write_metrics(summaries, out_dir))
    return ReportFiles(index_html=index_html, index_md=index_md, csv=tables_csv, figures=tuple(figures))


def _measured(summary: RunSummary) -> bool:
    """Whether a run has figures of its own; a gate without objectives has none."""
    command = summary.info.command
    return command not in CHECK_COMMANDS and (command != GATE_COMMAND or bool(summary.cells))


def _derived(path: Path, percentiles: Sequence[float] | None) -> RunData:
    run = RunFolder.open(path)
    data = load_run(run, percentiles)
    write_summary(run, data.summary)
    return data


def write_figure(drawing: Drawing, out_dir: Path) -> list[Path]:
    """The figure as PNG and SVG files named after its slug; its parts are put in their places once for both."""
    style.settle(drawing.figure)
    paths = [out_dir / f"{drawing.slug}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        path.write_bytes(style.render(drawing.figure, path.suffix[1:]))
    return paths


def picture_of(drawing: Drawing, out_dir: Path) -> Picture:
    """What a page needs of a figure that `write_figure` wrote."""
    svg = (out_dir / f"{drawing.slug}.svg").read_bytes()
    return Picture(slug=drawing.slug, title=drawing.title, words=drawing.words, svg=svg)


def write_csv(table: Table, out_dir: Path) -> Path:
    """The table as a CSV file named after its slug."""
    return _write_rows(out_dir / f"{table.slug}.csv", table.metrics, table.values)


def _write_metrics(summaries: Sequence[RunSummary], out_dir: Path) -> Path:
    """Every metric of every cell, one a line, with its unit, count and note."""
    rows = [
        (run.info.run_id, cell.cell, cell.concurrency, each.name, each.unit, _float(each.value), each.count, each.note)
        for run in summaries
        for cell in run.cells
        for each in cell.metrics
    ]
    columns = ("run", "cell", "concurrency", "metric", "unit", "value", "count", "note")
    return _write_rows(out_dir / "metrics.csv", columns, rows)


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _write_rows(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    """A CSV file; what is None is empty there."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows((columns, *rows))
    return path
