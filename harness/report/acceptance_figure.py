"""The figure of drafting: acceptance length of every cell, with whose account it is."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from harness.metrics import CellSummary
from harness.report import style

TITLE = "Acceptance length"
METRIC = "acceptance_length"


def has_drafts(cells: Sequence[tuple[str, CellSummary]]) -> bool:
    """Whether any cell says how many drafts were accepted."""
    return any(cell.value(METRIC) is not None for _, cell in cells)


def draw_acceptance(cells: Sequence[tuple[str, CellSummary]], load: str) -> Figure:
    """A bar per named cell from 1, which is a step without accepted drafts; source under the value, or "not told"."""
    figure, axes = style.new_axes(TITLE, load, "tokens per verify step")
    values = [cell.value(METRIC) for _, cell in cells]
    tops = [1.0 if value is None else value for value in values]
    axes.bar(range(len(cells)), [top - 1 for top in tops], bottom=1.0, width=0.6, color=style.colour(0))
    for index, ((_, cell), value) in enumerate(zip(cells, values, strict=True)):
        text = "not told" if value is None else f"{value:.2f}\n{_source(cell)}"
        axes.annotate(text, (index, tops[index]), xytext=(0, 4), textcoords="offset points", ha="center", fontsize=9)
    axes.set_xticks(range(len(cells)), [key for key, _ in cells])
    margin = max(0.6, (4 - len(cells)) / 2)
    axes.set_xlim(-margin, len(cells) - 1 + margin)
    axes.set_ylim(1, 1 + 1.3 * max(0.5, max(tops) - 1))
    axes.grid(False, axis="x")
    return figure


def _source(cell: CellSummary) -> str:
    metric = cell.metric(METRIC)
    note = None if metric is None else metric.note
    return "" if note is None else "own fields" if note.startswith("the answers") else "counters"
