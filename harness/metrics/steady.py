"""The steady part of a cell: where warming up has ended, and the throughput from there on.

MSER-5 (White, 1997): of a series of means of five, the truncation point that makes the standard error of the rest
smallest. It is looked for in the first half; if it is the half itself, or a later point is far better, the series has
not settled. Truncation is taken of throughput and TTFT a second; from there on throughput must not change any more, nor
the cached share, because a cache that still fills is not steady.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from harness.clock import NS_PER_S
from harness.metrics.cache import cached_and_prompt_tokens
from harness.metrics.cell import MeasuredCell
from harness.metrics.latency import ttft_ms
from harness.records import Metric

MSER_BATCH = 5
# Bins of the series, so many that MSER-5 has batches enough in short cells too.
FEWEST_BINS = 40
FEWEST_BATCHES = 8
FLAT_SHARE = 0.05
# Differences below this share of the mean are no sign of warming up.
NOISE_SHARE = 0.02
# A later truncation point this much better, by the square of its standard error, shows that the series had not settled.
FAR_BETTER = 0.25
LATE_PART, LATE_CHANGE = 0.2, 0.3
F64 = npt.NDArray[np.float64]
Events: TypeAlias = tuple[F64, F64 | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyWindow:
    """start_s and end_s from the first planned request; None each, with the reason, if the cell has no steady part."""

    start_s: float | None
    end_s: float | None
    why_none: str | None = None


def mser5(series: F64) -> int | None:
    """How many leading values to leave out; None if there are too few, or if no point before the half is best."""
    batches = len(series) // MSER_BATCH
    if batches < FEWEST_BATCHES:
        return None
    means = series[: batches * MSER_BATCH].reshape(batches, MSER_BATCH).mean(axis=1)
    floor = (NOISE_SHARE * float(np.abs(means).mean())) ** 2
    last = batches - MSER_BATCH
    errors = [(float(np.var(means[cut:])) + floor) / (batches - cut) for cut in range(max(last, batches // 2) + 1)]
    best = int(np.argmin(errors[: batches // 2 + 1]))
    settled = best < batches // 2 and min(errors) > FAR_BETTER * errors[best]
    return best * MSER_BATCH if settled else None


def steady_window(cell: MeasuredCell, events: Events | None = None) -> SteadyWindow:
    """The part of a cell after its warming up and before its last requests have none beside them.

    events: what `token_times` gives of the cell, where it is known already.
    """
    events = token_times(cell) if events is None else events
    span_s = cell.duration_s
    if span_s is None or not cell.completed or not span_s > 0:
        return SteadyWindow(start_s=None, end_s=None, why_none="nothing was measured")
    end_s = _filled_until_s(cell, span_s)
    if not end_s > 0:
        return SteadyWindow(start_s=None, end_s=None, why_none="no request began after the first answers had ended")
    bins = max(FEWEST_BINS, round(end_s))
    width_s = end_s / bins
    tokens = _token_series(events, bins, width_s)
    cuts = [mser5(series) for series in (tokens, _ttft_series(cell, bins, width_s))]
    known = [cut for cut in cuts if cut is not None]
    if len(known) < len(cuts):
        return SteadyWindow(start_s=None, end_s=None, why_none="throughput or TTFT had not settled by half time")
    start_s = max(known) * width_s
    if _changes_late(tokens[max(known) :]):
        return SteadyWindow(start_s=None, end_s=None, why_none="throughput changed in the last part of the cell")
    if not _cached_share_is_flat(cell, start_s, end_s):
        return SteadyWindow(start_s=None, end_s=None, why_none="the cached share was still changing")
    return SteadyWindow(start_s=start_s, end_s=end_s)


def steady_metrics(cell: MeasuredCell) -> tuple[Metric, ...]:
    """Output tokens stamped inside the steady window / its length, and the window; None, saying why, without one."""
    times_s, tokens = token_times(cell)
    window = steady_window(cell, (times_s, tokens))
    names = {"steady_output_throughput": "tokens/s", "steady_start": "s", "steady_end": "s"}
    start_s, end_s = window.start_s, window.end_s
    if start_s is None or end_s is None:
        return tuple(Metric(name=n, unit=u, value=None, count=0, note=window.why_none) for n, u in names.items())
    inside = (times_s >= start_s) & (times_s < end_s)
    count = int(inside.sum())
    inside_tokens = count if tokens is None else float(tokens[inside].sum())
    values = (inside_tokens / (end_s - start_s), start_s, end_s)
    return tuple(
        Metric(name=name, unit=unit, value=value, count=count)
        for (name, unit), value in zip(names.items(), values, strict=True)
    )


def token_times(cell: MeasuredCell) -> Events:
    """Seconds from the first planned request, and tokens, of every event of the completed requests that kept times.

    Tokens are None where each event holds one.
    """
    timed = [(each, each.event_times_ns) for each in cell.completed if each.event_times_ns is not None]
    if not timed:
        return np.empty(0), None
    times = (np.concatenate([at_ns for _, at_ns in timed]) - _origin_ns(cell)) / NS_PER_S
    if all(each.complete.event_tokens is None for each, _ in timed):
        return times, None
    tokens = [
        np.ones(len(at_ns)) if (counts := each.complete.event_tokens) is None else np.asarray(counts, dtype=np.float64)
        for each, at_ns in timed
    ]
    return times, np.concatenate(tokens)


def _origin_ns(cell: MeasuredCell) -> int:
    return min(each.invoke.planned_ns for each in cell.measured)


def _filled_until_s(cell: MeasuredCell, span_s: float) -> float:
    """When the last request began: from then on the load only falls."""
    last_ns = max(each.invoke.planned_ns for each in cell.measured)
    return min(span_s, (last_ns - _origin_ns(cell)) / NS_PER_S)


def _token_series(events: Events, bins: int, width_s: float) -> F64:
    times_s, tokens = events
    counts, _ = np.histogram(times_s, bins=bins, range=(0, bins * width_s), weights=tokens)
    return counts.astype(np.float64)


def _ttft_series(cell: MeasuredCell, bins: int, width_s: float) -> F64:
    """Median TTFT of the requests that began in each bin; a bin without one repeats the bin before it."""
    origin_ns = _origin_ns(cell)
    found: dict[int, list[float]] = {}
    for each in cell.completed:
        value = ttft_ms(each)
        if value is not None:
            at = int((each.invoke.planned_ns - origin_ns) / NS_PER_S / width_s)
            found.setdefault(min(at, bins - 1), []).append(value)
    series: list[float] = []
    for at in range(bins):
        before = series[-1] if series else float(np.median(next(iter(found.values()), [0.0])))
        series.append(float(np.median(found[at])) if at in found else before)
    return np.array(series)


def _changes_late(series: F64) -> bool:
    """Whether the mean of the last part differs from that of the rest by more than LATE_CHANGE of it."""
    cut = round((1 - LATE_PART) * len(series))
    before, after = float(series[:cut].mean()), float(series[cut:].mean())
    return abs(after - before) > LATE_CHANGE * before


def _cached_share_is_flat(cell: MeasuredCell, start_s: float, end_s: float) -> bool:
    """Whether both halves of the window have the same cached share to FLAT_SHARE; true where nothing is reported."""
    origin_ns, middle_s = _origin_ns(cell), (start_s + end_s) / 2
    halves: list[list[tuple[int, int]]] = [[], []]
    for each in cell.completed:
        at_s = (each.invoke.planned_ns - origin_ns) / NS_PER_S
        pair = cached_and_prompt_tokens(each)
        if pair is not None and start_s <= at_s <= end_s:
            halves[at_s >= middle_s].append(pair)
    shares = [sum(c for c, _ in half) / sum(p for _, p in half) for half in halves if sum(p for _, p in half)]
    return len(shares) < 2 or abs(shares[0] - shares[1]) <= FLAT_SHARE
