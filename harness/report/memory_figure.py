"""Memory of one sequence against its length: where a hybrid begins to pay, and what all attention would take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from harness.memory.sequence import Setting, all_attention_bytes, break_even_tokens, sequence_bytes
from harness.memory.shape import ModelShape
from harness.report import style
from harness.report.figures import Drawing

SHORTEST_TOKENS = 256
POINTS = 160
MIB = 1 << 20
DASHED = "dashed: attention in every layer"
RING = "ring: break-even, all state counted"
TITLE = "Memory of one sequence against its length"


def memory_against_context(
    models: Sequence[tuple[ModelShape, Setting]], longest_tokens: int, shortest_tokens: int = SHORTEST_TOKENS
) -> Drawing:
    """A line a model, dashed for the same model with attention in every layer, a ring where the two are level.

    Models that take the same at every length share a line.
    """
    with style.settings():
        figure, axes = style.new_axes(TITLE, "context, tokens, log scale", "cache and state, log scale")
        lengths = np.unique(np.geomspace(shortest_tokens, max(longest_tokens, 2 * shortest_tokens), POINTS).astype(int))
        drawn: dict[str, None] = {}
        for index, (shape, setting) in enumerate(models):
            drawn |= dict.fromkeys(_draw(axes, index, shape, replace(setting, tp=1), lengths.tolist()))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_locator(LogLocator(base=4))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(_tokens))
        axes.yaxis.set_major_formatter(FuncFormatter(_mebibytes))
        axes.legend(loc="upper left", title="; ".join(drawn) or None, alignment="left")
    return Drawing(slug="memory", title=TITLE, words=_words(models), figure=figure)


def _draw(axes: Axes, index: int, shape: ModelShape, setting: Setting, lengths: Sequence[int]) -> list[str]:
    """Draw a model; what of DASHED and RING there was to draw."""
    drawn: list[str] = []
    colour = style.colour(index)
    totals = [sequence_bytes(shape, setting, length).total_bytes / MIB for length in lengths]
    same = next((line for line in axes.lines if np.array_equal(line.get_ydata(), totals) and _is_named(line)), None)
    if same is not None:
        same.set_label(f"{same.get_label()}, {shape.name}")
        return drawn
    axes.plot(lengths, totals, color=colour, label=shape.name)
    everywhere = [all_attention_bytes(shape, setting, length) for length in lengths]
    if any(size is not None and size / MIB != total for size, total in zip(everywhere, totals, strict=True)):
        axes.plot(lengths, [(size or 0) / MIB for size in everywhere], color=colour, linestyle="--", linewidth=1.2)
        drawn.append(DASHED)
    level = _crossing(shape, setting)
    if level is not None and lengths[0] <= level <= lengths[-1]:
        height = sequence_bytes(shape, setting, level).total_bytes / MIB
        axes.plot([level], [height], "o", color=colour, markerfacecolor="white", markersize=8, zorder=4)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
        axes.annotate(
            f"{level:,}",
            (level, height),
            textcoords="offset points",
            xytext=(-7, 7),
            ha="right",
            color=colour,
            bbox=box,
        )
        drawn.append(RING)
    return drawn


def _is_named(line: Line2D) -> bool:
    """Whether it stands for a model: what has no label of its own is called _child0 and so on."""
    return not str(line.get_label()).startswith("_")


def _crossing(shape: ModelShape, setting: Setting) -> int | None:
    """Where the lines of the figure meet: everything counts, so convolution state and draft states do too."""
    level = break_even_tokens(shape, setting, with_conv=True)
    if level is None or not shape.recurrent_groups():
        return level
    return level * (1 + setting.draft_states + setting.snapshots)


def _words(models: Sequence[tuple[ModelShape, Setting]]) -> str:
    levels = [(shape.name, _crossing(shape, replace(setting, tp=1))) for shape, setting in models]
    parts = [f"{name} is level with attention in every layer at {level:,} tokens" for name, level in levels if level]
    return "; ".join(["cache and state of one sequence in bytes at each length", *parts])


def _tokens(value: float, position: int | None = None) -> str:
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"


def _mebibytes(value: float, position: int | None = None) -> str:
    return f"{value / 1024:g} GiB" if value >= 1024 else f"{value:g} MiB"
