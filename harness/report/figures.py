"""The figures of a report; each is drawn from the records of one or several runs and says so when it has no data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.clock import NS_PER_S
from harness.metrics import CellSummary
from harness.metrics.distribution import percentile_word
from harness.metrics.latency import all_itl_ms, e2el_ms, ttft_ms
from harness.records import Outcome, Record
from harness.report import style
from harness.report.acceptance_figure import draw_acceptance, has_drafts
from harness.report.derive import RunData, RunSummary
from harness.report.numbers import percent, run_letter
from harness.report.scaling_figure import draw_scaling, wanted
from harness.report.tables import load_word
from harness.store import CellHistory
from workloads.plan import Phase

T = TypeVar("T")
F64 = npt.NDArray[np.float64]
NOTHING = "no completed requests"
LOAD_AXES = {"concurrency": "concurrency (requests in flight)", "request rate": "offered requests/s"}
ECDF_POINTS = 400
TIME_BINS = 60
SECONDS_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A finished figure; `words` describe it for those who cannot see it."""

    slug: str
    title: str
    words: str
    figure: Figure


def draw_all(runs: Sequence[RunData]) -> list[Drawing]:
    """Every figure, in the order of the page."""
    with style.settings():
        return [*(draw(runs) for draw in FIGURES.values()), *_acceptance(runs), *_scaling(runs)]


def _acceptance(runs: Sequence[RunData]) -> list[Drawing]:
    """Acceptance length by cell, where any cell has one."""
    cells = _cells(runs)
    if not has_drafts(cells):
        return []
    words = "tokens per verify step of each cell, with the account they are from"
    figure = draw_acceptance(cells, LOAD_AXES[_load(runs)])
    return [Drawing(slug="acceptance_length", title="Acceptance length", words=words, figure=figure)]


def _scaling(runs: Sequence[RunData]) -> list[Drawing]:
    """The scalability law of every run with levels enough for it."""
    return [
        Drawing(
            slug=f"scaling{'' if len(runs) == 1 else '_' + run_letter(at)}",
            title="Scaling with concurrency",
            words="throughput at each level with the fitted scalability law",
            figure=draw_scaling(run.summary),
        )
        for at, run in enumerate(runs)
        if wanted(run.summary)
    ]


def throughput(runs: Sequence[RunData]) -> Drawing:
    """Output tokens per second against the load."""
    title = f"Output throughput against {_load(runs)}"
    figure, axes = style.new_axes(title, LOAD_AXES[_load(runs)], "output tokens/s")
    lines = {"": lambda cell: cell.value("output_throughput")}
    _against_load(axes, runs, lines)
    return Drawing(slug="throughput", title=title, words="output tokens per second at each load level", figure=figure)


def latency_percentiles(name: str, runs: Sequence[RunData]) -> Drawing:
    """Percentiles of one latency against the load."""
    title = f"{name.upper()} against {_load(runs)}"
    figure, axes = style.new_axes(title, LOAD_AXES[_load(runs)], f"{name.upper()}, ms")
    words = [percentile_word(each) for each in runs[0].summary.percentiles] if runs else []
    lines: dict[str, Callable[[CellSummary], float | None]] = {
        word: partial(CellSummary.value, name=f"{word}_{name}_ms") for word in reversed(words)
    }
    _against_load(axes, runs, lines)
    described = f"percentiles of {name.upper()} in milliseconds at each load level"
    return Drawing(slug=name, title=title, words=described, figure=figure)


def latency_distribution(name: str, values_of: Callable[[Sequence[Record]], F64], runs: Sequence[RunData]) -> Drawing:
    """The share of values at or below each latency, a line per cell."""
    what = "tokens" if name == "itl" else "requests"
    label = {"ttft": "TTFT", "itl": "ITL", "e2el": "E2E latency"}[name]
    title = f"Distribution of {label}"
    figure, axes = style.new_axes(title, f"{label}, ms", f"share of {what} at or below")
    seen: list[float] = []
    for index, (key, (count, values, shares)) in enumerate(_of_each_cell(partial(_curve, values_of), runs)):
        if not count:
            continue
        axes.step(
            values,
            shares,
            where="post",
            color=style.colour(index),
            linestyle=style.dash(index),
            label=f"{key} (n = {count:,})",
        )
        seen += [max(float(values[0]), float(values[-1]) / 1e4), float(values[-1])]
    if seen:
        style.fit_x(axes, seen)
        axes.set_ylim(0, 1.01)
        style.name_lines(axes, load_word([run.summary for run in runs]))
    else:
        style.say_empty(axes, NOTHING)
    return Drawing(
        slug=f"ecdf_{name}", title=title, words=f"cumulative distribution of {label} per cell", figure=figure
    )


def _curve(values_of: Callable[[Sequence[Record]], F64], history: CellHistory) -> tuple[int, F64, F64]:
    """How many values a cell has, some of them in order, and the share of values at or below each."""
    values = np.sort(values_of(_completed(history)))
    ranks = np.unique(np.linspace(0, max(len(values) - 1, 0), min(len(values), ECDF_POINTS)).round().astype(int))
    return len(values), values[ranks], (ranks + 1) / max(len(values), 1)


def tokens_over_time(runs: Sequence[RunData]) -> Drawing:
    """Output tokens per second over the time of each cell, a panel per cell."""
    title = "Output tokens over time"
    word = load_word([run.summary for run in runs])
    cells = [cell for run in runs for cell in run.summary.cells]
    streams = _of_each_cell(_token_rates, runs)
    figure, panels = style.new_panels(title, max(len(streams), 1))
    for axes, (key, rates), cell in zip(panels, streams, cells, strict=False):
        _draw_rates(axes, f"{word} {key}", rates)
        _mark_steady(axes, cell)
    if not streams:
        style.say_empty(panels[0], "no cells")
    panels[-1].set_xlabel("seconds since the first measured request")
    words = "output tokens per second as each cell went on, its steady window shaded"
    return Drawing(slug="tokens_over_time", title=title, words=words, figure=figure)


def _mark_steady(axes: Axes, cell: CellSummary) -> None:
    """Shade the steady window with its throughput, or say that there is none."""
    start_s, end_s = cell.value("steady_start"), cell.value("steady_end")
    throughput = cell.value("steady_output_throughput")
    if start_s is None or end_s is None or throughput is None:
        axes.set_title("no steady window", loc="right", fontsize=9, fontweight="normal", color="#666666")
        return
    axes.axvspan(start_s, end_s, color=style.COLOURS[2], alpha=0.12, linewidth=0)
    axes.hlines(throughput, start_s, end_s, color=style.COLOURS[2], linestyle="--", linewidth=1.2)
    axes.set_title(f"steady: {throughput:,.0f}/s", loc="right", fontsize=9, fontweight="normal")


def _draw_rates(axes: Axes, key: str, rates: tuple[F64, F64] | None) -> None:
    axes.set_ylabel("tokens/s")
    if rates is None:
        axes.set_title(key, fontweight="normal")
        style.say_empty(axes, "no token times")
        return
    edges_s, per_s = rates
    axes.stairs(per_s, edges_s, color=style.colour(0), linewidth=1.6)
    axes.set_title(f"{key} (mean of each {edges_s[1]:g} s)", fontweight="normal")
    axes.set_xlim(0, edges_s[-1])
    axes.set_ylim(0, style.HEADROOM * max(per_s) or 1)


def _token_rates(history: CellHistory) -> tuple[F64, F64] | None:
    """Edges of equal bins in seconds from the first measured request, and the tokens a second in each."""
    times_s, tokens = _token_stream(history)
    if not len(times_s):
        return None
    last_s = float(times_s.max())
    bin_s = _bin_seconds(last_s)
    bins = max(int(last_s / bin_s), 1)  # whole bins: a part of one would look like a dip
    counts, edges_s = np.histogram(times_s, bins=bins, range=(0, bins * bin_s), weights=tokens)
    return edges_s, counts / bin_s


def cached_share(runs: Sequence[RunData]) -> Drawing:
    """The share of prompt tokens that the server took from its cache, a bar per cell."""
    title = "Cached share of prompt tokens"
    figure, axes = style.new_axes(title, LOAD_AXES[_load(runs)], "cached share, %")
    cells = [(key, cell.value("cached_share")) for key, cell in _cells(runs)]
    heights = [0.0 if share is None else 100 * share for _, share in cells]
    axes.bar(range(len(cells)), heights, width=0.6, color=style.colour(0))
    for index, (_, share) in enumerate(cells):
        text = "not\nreported" if share is None else percent(share)
        axes.annotate(text, (index, heights[index]), xytext=(0, 4), textcoords="offset points", ha="center")
    axes.set_xticks(range(len(cells)), [key for key, _ in cells])
    margin = max(0.6, (4 - len(cells)) / 2)
    axes.set_xlim(-margin, len(cells) - 1 + margin)
    axes.set_ylim(0, 112)
    axes.set_yticks(range(0, 101, 20))
    axes.grid(False, axis="x")
    if not cells:
        style.say_empty(axes, "no cells")
    return Drawing(slug="cached_share", title=title, words="cached share of the prompt tokens per cell", figure=figure)


def _each(latency: Callable[[Record], float | None]) -> Callable[[Sequence[Record]], F64]:
    def values(records: Sequence[Record]) -> F64:
        return np.array([value for each in records if (value := latency(each)) is not None], dtype=np.float64)

    return values


FIGURES: Mapping[str, Callable[[Sequence[RunData]], Drawing]] = {
    "throughput": throughput,
    "ttft": partial(latency_percentiles, "ttft"),
    "tpot": partial(latency_percentiles, "tpot"),
    "ecdf_ttft": partial(latency_distribution, "ttft", _each(ttft_ms)),
    "ecdf_itl": partial(latency_distribution, "itl", all_itl_ms),
    "ecdf_e2el": partial(latency_distribution, "e2el", _each(e2el_ms)),
    "tokens_over_time": tokens_over_time,
    "cached_share": cached_share,
}


def _load(runs: Sequence[RunData]) -> str:
    """What cells are drawn against: the offered rate if every cell has one, else the concurrency."""
    cells = [cell for run in runs for cell in run.summary.cells]
    rated = bool(cells) and all(cell.request_rate is not None for cell in cells)
    return "request rate" if rated else "concurrency"


def _against_load(
    axes: Axes, runs: Sequence[RunData], lines: Mapping[str, Callable[[CellSummary], float | None]]
) -> None:
    drawn: list[tuple[float, float]] = []
    index = 0
    rated = _load(runs) == "request rate"
    for run in runs:
        for context, (name, value_of) in product(_contexts(run.summary), lines.items()):
            points = _points(run.summary, value_of, context, rated=rated)
            length = "" if context is None else f"{context:,} tokens"
            label = " ".join(part for part in (_run_label(run, runs), length, name) if part)
            marker = style.MARKERS[index % len(style.MARKERS)]
            if points:
                axes.plot(
                    *zip(*points, strict=True),
                    color=style.colour(index),
                    linestyle=style.dash(index),
                    marker=marker,
                    label=label,
                )
            drawn += points
            index += 1
    if not drawn:
        style.say_empty(axes, NOTHING)
        return
    style.use_levels(axes, [level for level, _ in drawn])
    style.fit_y(axes, [value for _, value in drawn])
    if index > 1:
        style.name_lines(axes)


def _contexts(summary: RunSummary) -> list[int | None]:
    return list(dict.fromkeys(cell.context_tokens for cell in summary.cells))


def _points(
    summary: RunSummary, value_of: Callable[[CellSummary], float | None], context: int | None, *, rated: bool
) -> list[tuple[float, float]]:
    """(load, value) of the cells of one context length; the mean where several rounds have the same load."""
    found: dict[float, list[float]] = {}
    for cell in summary.cells:
        load, value = cell.request_rate if rated else cell.concurrency, value_of(cell)
        if cell.context_tokens == context and load is not None and value is not None:
            found.setdefault(load, []).append(value)
    return sorted((load, sum(values) / len(values)) for load, values in found.items())


def _run_label(run: RunData, runs: Sequence[RunData]) -> str:
    return run_letter(runs.index(run)) if len(runs) > 1 else ""


def _cells(runs: Sequence[RunData]) -> list[tuple[str, CellSummary]]:
    return [(_cell_key(run, cell, runs), cell) for run in runs for cell in run.summary.cells]


def _histories(runs: Sequence[RunData]) -> list[tuple[str, CellHistory]]:
    return [(_cell_key(run, cell, runs), run.histories[cell.cell]) for run in runs for cell in run.summary.cells]


def _of_each_cell(work: Callable[[CellHistory], T], runs: Sequence[RunData]) -> list[tuple[str, T]]:
    """Something worked out of every cell, two at a time: numpy leaves the interpreter to others while it sorts."""
    histories = _histories(runs)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(work, (history for _, history in histories)))
    return [(key, each) for (key, _), each in zip(histories, found, strict=True)]


def _cell_key(run: RunData, cell: CellSummary, runs: Sequence[RunData]) -> str:
    level = cell.cell if cell.concurrency is None else str(cell.concurrency)
    level = level if cell.arrivals is None else cell.arrivals
    length = "" if cell.context_tokens is None else f"{cell.context_tokens:,} tokens, "
    turn = f" round {cell.round_index + 1}" if any(each.round_index for each in run.summary.cells) else ""
    where = f"{_run_label(run, runs)} {length}{level}{turn}".strip()
    return where if cell.finished else f"{where} (unfinished)"


def _completed(history: CellHistory) -> list[Record]:
    return [
        each for each in history.records if each.complete.outcome is Outcome.OK and each.invoke.phase is Phase.MEASURE
    ]


def _token_stream(history: CellHistory) -> tuple[F64, F64 | None]:
    """Event times in seconds from the first measured request, and the tokens of each event; None: one each."""
    measured = [each for each in history.records if each.invoke.phase is Phase.MEASURE]
    timed = [each for each in measured if each.event_times_ns is not None]
    if not timed:
        return np.empty(0), None
    start_ns = min(each.invoke.planned_ns for each in measured)
    times_s = (np.concatenate([_event_times_ns(each) for each in timed]) - start_ns) / NS_PER_S
    if all(each.complete.event_tokens is None for each in timed):
        return times_s, None
    return times_s, np.concatenate([_event_tokens(each) for each in timed])


def _event_times_ns(record: Record) -> npt.NDArray[np.int64]:
    return np.empty(0, dtype=np.int64) if record.event_times_ns is None else record.event_times_ns


def _event_tokens(record: Record) -> F64:
    tokens = record.complete.event_tokens
    return np.ones(len(_event_times_ns(record))) if tokens is None else np.asarray(tokens, dtype=np.float64)


def _bin_seconds(span_s: float) -> float:
    return next((step for step in SECONDS_STEPS if step * TIME_BINS >= span_s), SECONDS_STEPS[-1])
