"""The picture of a workload's distributions beside those of a trace."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report import style
from workloads.agent_profile import AgentProfile
from workloads.quantiles import QuantileTable
from workloads.trace_stats import TraceStats

COLUMNS = 3
PANEL_INCHES = (3.6, 2.6)
SHARES = np.linspace(0.005, 0.995, 199)


def draw_comparison(ours: TraceStats, other: TraceStats | AgentProfile | None, kind: str) -> bytes:
    """Cumulative distributions of every quantity, a panel each, as "png" or "svg" bytes."""
    theirs = {} if other is None else other.tables if isinstance(other, TraceStats) else other.by_name()
    with style.settings():
        figure = _panels(ours, theirs, "" if other is None else other.source)
        return style.render(figure, kind)


def _panels(ours: TraceStats, theirs: Mapping[str, QuantileTable], other_source: str) -> Figure:
    names = list(ours.tables)
    rows = -(-len(names) // COLUMNS)
    figure = Figure(figsize=(COLUMNS * PANEL_INCHES[0], rows * PANEL_INCHES[1] + 0.8), layout="constrained")
    for number, name in enumerate(names):
        axes = figure.add_subplot(rows, COLUMNS, number + 1)
        _draw(axes, ours.tables[name], style.colour(0), "-", ours.source)
        if name in theirs:
            _draw(axes, theirs[name], style.colour(1), "--", other_source)
        axes.set_title(name.replace("_", " "), fontsize=9)
        axes.set_ylim(0, 1)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, [label[:60] for label in labels], loc="outside lower center", ncols=2, fontsize=8)
    return figure


def _draw(axes: Axes, table: QuantileTable, colour: str, dash: str, label: str) -> None:
    values = np.array([table.at(share) for share in SHARES])
    if values[-1] > style.LOG_RANGE * max(values[len(values) // 2], 1e-9) and values[0] > 0:
        axes.set_xscale("log")
    axes.plot(values, SHARES, color=colour, linestyle=dash, label=label)
