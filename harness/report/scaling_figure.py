"""The figure of a search for the limit: throughput against concurrency with its scalability law."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from harness.metrics.scalability import FEWEST_LEVELS, Scalability, fit_scalability
from harness.report import style
from harness.report.derive import RunSummary

POINTS = 200


def closed_levels(summary: RunSummary) -> tuple[list[float], list[float]]:
    """(concurrency, output tokens a second) of the finished closed-loop cells."""
    pairs = [
        (float(cell.concurrency), value)
        for cell in summary.cells
        if cell.finished and cell.arrivals is None and cell.concurrency is not None
        if (value := cell.value("output_throughput")) is not None
    ]
    return [level for level, _ in pairs], [value for _, value in pairs]


def fit_of(summary: RunSummary) -> Scalability | None:
    """The law of a run's closed-loop cells; None if there are too few levels, or several context lengths."""
    if len({cell.context_tokens for cell in summary.cells}) > 1:
        return None
    return fit_scalability(*closed_levels(summary))


def wanted(summary: RunSummary) -> bool:
    """Whether a run has levels enough to draw the law."""
    return len(set(closed_levels(summary)[0])) >= FEWEST_LEVELS


def draw_scaling(summary: RunSummary) -> Figure:
    """Measured levels, the fitted law, its peak if there is one, and the limit that was found."""
    figure, axes = style.new_axes("Scaling with concurrency", "concurrency (requests in flight)", "output tokens/s")
    levels, values = closed_levels(summary)
    axes.plot(levels, values, "o", color=style.colour(0), label="measured")
    fit = fit_of(summary)
    if fit is not None:
        grid = np.geomspace(min(levels), max(levels), POINTS)
        law = f"law: a = {fit.a:.3g}, b = {fit.b:.2g} ({fit.b_low:.2g} to {fit.b_high:.2g})"
        axes.plot(grid, [fit.throughput(n) for n in grid], "--", color=style.colour(1), label=law)
        if fit.peak is not None and fit.peak <= max(levels):
            axes.axvline(fit.peak, color=style.colour(2), linestyle=":", label=f"peak at {fit.peak:.0f}")
    style.use_levels(axes, levels)
    style.fit_y(axes, values)
    axes.legend(loc="best")
    return figure
