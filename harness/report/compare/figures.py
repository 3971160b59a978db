"""The pictures of a comparison: each figure of every side, and below it the ratio with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from harness.report import style
from harness.report.compare.comparison import Comparison
from harness.report.compare.published import PublishedFigure, PublishedRun
from harness.report.compare.ratios import Ratio
from harness.report.compare.sides import Load, Point, Side
from harness.report.compare.statistics import Statistic
from harness.report.figures import Drawing

COLUMNS = 3
PANEL_WIDTH_INCHES = 3.1
ROW_INCHES = 2.7
RATIO_INCHES = 3.3
SHIFT = 1.03
RATIO_COLOURS = 2


def draw(comparison: Comparison) -> list[Drawing]:
    """A picture of each figure."""
    with style.settings():
        return [_drawing(comparison, each) for each in comparison.statistics]


def _drawing(comparison: Comparison, statistic: Statistic) -> Drawing:
    lengths = {point.context_tokens for point in comparison.points}
    along_length = len(lengths) > 1
    panels = list(dict.fromkeys(_panel(point, along_length) for point in comparison.points))
    columns, rows = min(len(panels), COLUMNS), math.ceil(len(panels) / COLUMNS)
    width = max(style.SIZE_INCHES[0], PANEL_WIDTH_INCHES * columns)
    figure = Figure(figsize=(width, ROW_INCHES * rows + RATIO_INCHES), layout="constrained")
    grid = figure.add_gridspec(rows + 1, columns, height_ratios=[*[ROW_INCHES] * rows, RATIO_INCHES])
    title = statistic.title[0].upper() + statistic.title[1:]
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=style.SETTINGS["axes.titlesize"])
    shared: Axes | None = None
    for index, panel in enumerate(panels):
        axes = figure.add_subplot(grid[index // COLUMNS, index % COLUMNS], sharey=shared)
        shared = axes if shared is None else shared
        _draw_values(axes, comparison, statistic, panel, along_length)
    _finish_values(figure, figure.axes, comparison, statistic)
    _draw_ratios(figure.add_subplot(grid[rows, :]), comparison, statistic, along_length)
    return Drawing(slug=f"compare_{statistic.name}", title=title, words=_words(comparison, title), figure=figure)


def _words(comparison: Comparison, title: str) -> str:
    names = ", ".join(side.name for side in comparison.sides)
    return f"{title} of {names}; below, each side divided by {comparison.measured[0].letter} with its 95% interval"


def _draw_values(axes: Axes, comparison: Comparison, statistic: Statistic, panel: str, along_length: bool) -> None:
    for index, side in enumerate(comparison.sides):
        if side.published is not None:
            _draw_published(axes, index, side, statistic, panel, along_length)
            continue
        points = [point for point in side.rounds if _panel(point, along_length) == panel]
        values = [(_place(point, along_length), statistic.value(side.rounds[point])) for point in points]
        known = [(place, value) for place, value in values if value is not None]
        if known:
            marker = style.MARKERS[index % len(style.MARKERS)]
            axes.plot(*zip(*known, strict=True), color=style.colour(index), marker=marker, label=side.name)
    _use_places(axes, comparison, _points(comparison), along_length)
    axes.set_title(panel, fontweight="normal")


def _draw_published(axes: Axes, index: int, side: Side, statistic: Statistic, panel: str, along_length: bool) -> None:
    """A published figure at its own concurrency only: a line over all lengths where its length is not known."""
    assert side.published is not None
    label = f"{side.letter}: published, not measured here"
    colour = style.colour(index)
    if along_length:
        for concurrency, figure in _drawable(side.published, statistic):
            if Load(level=concurrency).label == panel:
                axes.axhline(figure.value, color=colour, linestyle=":", label=label)
        return
    for concurrency, figure in _drawable(side.published, statistic):
        axes.plot([concurrency], [figure.value], "*", color=colour, markersize=13, label=label)


def _drawable(published: PublishedRun, statistic: Statistic) -> list[tuple[int, PublishedFigure]]:
    """The figures that may stand beside ours, one at each concurrency."""
    levels = dict.fromkeys(each.concurrency for each in published.figures if each.concurrency is not None)
    found = [(level, published.figure(statistic.name, level)) for level in levels]
    return [(level, each) for level, each in found if each is not None]


def _finish_values(figure: Figure, panels: Sequence[Axes], comparison: Comparison, statistic: Statistic) -> None:
    """A y axis for all panels together, logarithmic where values span a twentyfold range, and one legend."""
    heights = [height for axes in panels for line in axes.get_lines() for height in np.asarray(line.get_ydata(), float)]
    panels[0].set_ylabel("%" if statistic.unit == "share" else statistic.unit)
    if statistic.unit == "share":
        panels[0].set_ylim(0, style.HEADROOM * max(heights, default=0.0) or 1.0)
    else:
        style.fit_y(panels[0], heights)
    factor = 100.0 if statistic.unit == "share" else 1.0
    for axes in panels:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: style.plain(factor * value)))
    handles: dict[str, Artist] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        figure.legend(list(handles.values()), list(handles), loc="outside lower left", ncols=min(len(handles), 2))


def _draw_ratios(axes: Axes, comparison: Comparison, statistic: Statistic, along_length: bool) -> None:
    first = comparison.measured[0]
    lines: dict[tuple[str, str], list[Ratio]] = {}
    for each in comparison.ratios:
        if each.metric == statistic.name and each.ratio is not None:
            lines.setdefault((each.letter, _panel(each.point, along_length)), []).append(each)
    for index, ((letter, panel), line) in enumerate(lines.items()):
        _draw_ratio_line(axes, index, len(lines), line, along_length, _line_label(comparison, letter, panel))
    axes.axhline(1.0, color="#888888", linewidth=1.0)
    _use_places(axes, comparison, comparison.points, along_length)
    names = "/".join((comparison.measured[1].letter, first.letter)) if len(comparison.measured) == 2 else "ratio"
    axes.set_ylabel(f"{names}, 95% interval")
    if not lines:
        style.say_empty(axes, "no ratio: a side has no figure, or it is zero")
        return
    _ratio_scale(axes, [each for line in lines.values() for each in line], comparison, statistic)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _draw_ratio_line(axes: Axes, index: int, count: int, line: Sequence[Ratio], along_length: bool, label: str) -> None:
    """A line with error bars, set aside a little so that bars of different lines do not cover each other."""
    aside = SHIFT ** (index - (count - 1) / 2)
    places = [_place(each.point, along_length) * aside for each in line]
    values = [each.ratio for each in line if each.ratio is not None]
    below = [0.0 if each.low is None else value - each.low for each, value in zip(line, values, strict=True)]
    above = [0.0 if each.high is None else each.high - value for each, value in zip(line, values, strict=True)]
    marker = style.MARKERS[(index + RATIO_COLOURS) % len(style.MARKERS)]
    axes.errorbar(
        places, values, yerr=[below, above], color=style.colour(index + RATIO_COLOURS), marker=marker,
        capsize=3, linewidth=1.4, label=label,
    )  # fmt: skip


def _line_label(comparison: Comparison, letter: str, panel: str) -> str:
    parts = [*([letter] if len(comparison.measured) > 2 else []), *([panel] if panel else [])]
    return ", ".join(parts) if parts else f"{letter}/{comparison.measured[0].letter}"


def _ratio_scale(axes: Axes, ratios: Sequence[Ratio], comparison: Comparison, statistic: Statistic) -> None:
    """A logarithmic axis around 1 when ratios span more than a factor of 4; the better side named at its end."""
    ends = [end for each in ratios for end in (each.ratio, each.low, each.high) if end is not None and end > 0]
    low, high = min([*ends, 0.9]), max([*ends, 1.1])
    if high > 4 * low:
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(NullLocator())
        ticks = [tick for tick in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if low / 1.5 <= tick <= high * 1.5]
        axes.set_yticks(ticks)
        axes.set_ylim(low / 1.25, high * 1.25)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(6))
        room = 0.12 * (high - low)
        axes.set_ylim(max(0.0, low - room), high + room)
    axes.yaxis.set_major_formatter(FuncFormatter(style.plain))
    if len(comparison.measured) != 2:
        return
    first, other = (side.letter for side in comparison.measured)
    over, under = (other, first) if statistic.higher_is_better else (first, other)
    for height, ahead, arrow, align in ((1.0, over, "↑", "top"), (0.0, under, "↓", "bottom")):
        text = f" {arrow} {ahead} ahead"
        axes.text(1.0, height, text, transform=axes.transAxes, va=align, ha="left", color="#555555", fontsize=10)


def _panel(point: Point, along_length: bool) -> str:
    """What the points of one panel, and of one line of ratios, have in common."""
    if along_length:
        return point.load.label
    return "" if point.context_tokens < 0 else f"context {point.context_tokens:,} tokens"


def _place(point: Point, along_length: bool) -> float:
    return point.context_tokens if along_length else point.load.level


def _points(comparison: Comparison) -> Sequence[Point]:
    """Every point that some side has, compared or not."""
    return sorted({point for side in comparison.measured for point in side.rounds})


def _use_places(axes: Axes, comparison: Comparison, points: Sequence[Point], along_length: bool) -> None:
    there = sorted({_place(point, along_length) for point in points})
    style.use_levels(axes, there)
    axes.set_xticks(there, [_tokens(int(each)) if along_length else f"{each:g}" for each in there])
    closed = not any(point.load.arrivals for point in comparison.points)
    loads = "concurrency (requests in flight)" if closed else "load"
    axes.set_xlabel("context, tokens" if along_length else loads)


def _tokens(count: int) -> str:
    return f"{count // 1024}K" if count >= 1024 and count % 1024 == 0 else f"{count:,}"
