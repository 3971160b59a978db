"""The look of every figure: light, legible in print, safe for colour-blind readers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from io import BytesIO

from matplotlib import style as mpl_style
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

SIZE_INCHES = (7.2, 4.3)
PANEL_INCHES = 1.75
DPI = 160
INK = "#222222"
# Okabe and Ito's palette, dark enough to read on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":")
LOG_RANGE = 20.0
MOST_DECADES = 4
# More lines than this are named in small print, in columns of so many.
LARGE_PRINT_LINES, SMALL_PRINT_ROWS = 8, 16
SMALL_PRINT = 7
HEADROOM = 1.1
SETTINGS = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 11,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.7,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "lines.linewidth": 1.9,
    "lines.markersize": 6,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "svg.hashsalt": "ling-bench",
}


def settings() -> AbstractContextManager[None]:
    """The context in which every figure is drawn and rendered."""
    return mpl_style.context(SETTINGS)


def new_axes(title: str, x_label: str, y_label: str) -> tuple[Figure, Axes]:
    """A figure of one panel with its title and labelled axes."""
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    axes.set(title=title, xlabel=x_label, ylabel=y_label)
    axes.xaxis.set_major_formatter(FuncFormatter(plain))
    axes.yaxis.set_major_formatter(FuncFormatter(plain))
    return figure, axes


def new_panels(title: str, count: int) -> tuple[Figure, list[Axes]]:
    """A figure of panels one above the other, each with axes of its own."""
    height_inches = max(SIZE_INCHES[1], PANEL_INCHES * count)
    figure = Figure(figsize=(SIZE_INCHES[0], height_inches), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=SETTINGS["axes.titlesize"], fontweight="bold")
    panels = [figure.add_subplot(count, 1, index + 1) for index in range(count)]
    for axes in panels:
        axes.xaxis.set_major_formatter(FuncFormatter(plain))
        axes.yaxis.set_major_formatter(FuncFormatter(plain))
    return figure, panels


def colour(index: int) -> str:
    """The colour of the series at `index`; colours repeat after seven, and the dash pattern then differs."""
    return COLOURS[index % len(COLOURS)]


def dash(index: int) -> str:
    """The dash pattern that goes with `colour(index)`."""
    return DASHES[index // len(COLOURS) % len(DASHES)]


def name_lines(axes: Axes, title: str | None = None) -> None:
    """A legend where it hides least; many lines are named in small print and columns, so that it stays inside."""
    count = len(axes.get_legend_handles_labels()[0])
    size = SETTINGS["legend.fontsize"] if count <= LARGE_PRINT_LINES else SMALL_PRINT
    axes.legend(title=title, loc="best", fontsize=size, ncols=-(-count // SMALL_PRINT_ROWS))


def use_levels(axes: Axes, levels: Sequence[float]) -> None:
    """Put the load on the x axis: logarithmic from a fourfold range on, a tick at each level that was measured."""
    there = sorted(set(levels))
    if there and there[-1] >= 4 * there[0] > 0:
        axes.set_xscale("log", base=2)
    axes.set_xticks(there, [f"{level:g}" for level in there])
    axes.xaxis.set_minor_locator(NullLocator())


def fit_y(axes: Axes, values: Sequence[float]) -> None:
    """A y axis from zero; a logarithmic one, said so in its label, where the values span a twentyfold range."""
    if _wide(values):
        axes.set_yscale("log")
        _label_decades(axes.yaxis, values)
        axes.set_ylabel(f"{axes.get_ylabel()}, log scale")
    else:
        axes.set_ylim(0, HEADROOM * max(values, default=0) or 1)


def fit_x(axes: Axes, values: Sequence[float]) -> None:
    """An x axis around the values; a logarithmic one, said so in its label, where they span a twentyfold range."""
    if _wide(values):
        axes.set_xscale("log")
        _label_decades(axes.xaxis, values)
        axes.set_xlabel(f"{axes.get_xlabel()}, log scale")


def _wide(values: Sequence[float]) -> bool:
    positive = [value for value in values if value > 0]
    return bool(positive) and max(positive) >= LOG_RANGE * min(positive)


def _label_decades(axis: Axis, values: Sequence[float]) -> None:
    """Ticks at 1, 2 and 5 of every decade, as long as their labels do not run into each other."""
    positive = [value for value in values if value > 0]
    many = max(positive) > 10**MOST_DECADES * min(positive)
    axis.set_major_locator(LogLocator(subs=(1.0,) if many else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(plain))
    axis.set_minor_locator(NullLocator())


def plain(value: float, position: int | None = None) -> str:
    """A tick label without powers of ten."""
    return f"{value:,.0f}" if value >= 1_000 else f"{value:g}"


def say_empty(axes: Axes, why: str) -> None:
    """Say in the middle of an empty figure why it is empty."""
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", fontsize=13, color="#666666")


def settle(figure: Figure) -> None:
    """Work out where the parts of a figure go, so that rendering leaves them there: it costs as much as drawing."""
    with settings():
        figure.draw_without_rendering()
        figure.set_layout_engine(None)


def render(figure: Figure, kind: str) -> bytes:
    """The figure as "png" or "svg" bytes, the same for the same figure."""
    buffer = BytesIO()
    with settings():
        figure.savefig(buffer, format=kind, dpi=DPI, metadata={"Date": None} if kind == "svg" else None)
    return buffer.getvalue()
