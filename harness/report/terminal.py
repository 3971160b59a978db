"""The tables of a sweep as plain text, for a terminal of 118 columns."""

from __future__ import annotations

from collections.abc import Sequence

from harness.metrics import CellSummary
from harness.report.deployments import published_tables
from harness.report.derive import RunSummary
from harness.report.tables import UNFINISHED_MARK, Table, cell_place, run_tables

WIDTH = 118
SHOWN = ("throughput", "speculation", "ttft_tpot", "itl_e2el", "lengths", "classes", "published")
GAP = "  "


def sweep_table(summary: RunSummary) -> str:
    """The target, a few tables with a row per load level, then failures and warnings, one a line."""
    target = summary.info.target
    blocks = [f"target  {target.base_url} ({target.chosen_by}), model {target.model}"]
    tables = (*run_tables([summary]), *published_tables([summary]))
    blocks += [table_text(table) for table in tables if table.slug in SHOWN]
    notes = [*failure_lines(summary.cells), *_warning_lines(summary)]
    if notes:
        blocks.append("\n".join(notes))
    return "\n\n".join(blocks)


def table_text(table: Table) -> str:
    """One table as aligned text; wider ones than the terminal are split into blocks that repeat the first column."""
    widths = [max(len(row[index]) for row in (table.headings, *table.rows)) for index in range(len(table.headings))]
    return "\n\n".join(_block(table, widths, part) for part in _parts(table, widths))


def failure_lines(cells: Sequence[CellSummary]) -> list[str]:
    """Why requests failed, a line for each reason and level."""
    return [
        _shortened(f"failed at {cell_place(cell)}: {group.count} x {group.reason}: {' '.join(group.example.split())}")
        for cell in cells
        for group in cell.failures
    ]


def _warning_lines(summary: RunSummary) -> list[str]:
    lines = [f"warning at {cell_place(cell)}: {text}" for cell in summary.cells for text in cell.warnings]
    lines += [f"warning: {text}" for text in summary.warnings]
    if any(not cell.finished for cell in summary.cells):
        lines.append(f"{UNFINISHED_MARK} this cell is unfinished")
    return lines


def _shortened(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


def _parts(table: Table, widths: Sequence[int]) -> list[list[int]]:
    """Column indices of each block; the first column leads every one, and groups stay together."""
    spans: list[list[int]] = []
    start = 0
    for _, size in table.groups or tuple(("", 1) for _ in table.headings):
        spans.append(list(range(start, start + size)))
        start += size
    lead, *rest = spans
    parts = [list(lead)]
    for span in rest:
        if len(parts[-1]) > len(lead) and _width(widths, [*parts[-1], *span]) > WIDTH:
            parts.append(list(lead))
        parts[-1] += span
    return parts


def _width(widths: Sequence[int], columns: Sequence[int]) -> int:
    return sum(widths[index] for index in columns) + len(GAP) * (len(columns) - 1)


def _block(table: Table, widths: Sequence[int], columns: Sequence[int]) -> str:
    lines = [table.headings, *table.rows]
    text = [GAP.join(line[index].rjust(widths[index]) for index in columns).rstrip() for line in lines]
    return "\n".join([*_group_line(table, widths, columns), *text])


def _group_line(table: Table, widths: Sequence[int], columns: Sequence[int]) -> list[str]:
    if not table.groups:
        return []
    cells = []
    start = 0
    for heading, size in table.groups:
        span = range(start, start + size)
        start += size
        if span[0] in columns:
            cells.append(heading.center(_width(widths, span)))
    return [GAP.join(cells).rstrip()]
