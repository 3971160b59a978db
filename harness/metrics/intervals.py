"""Confidence intervals of 95% for means and percentiles of a cell, by blocks of time or by rounds of the same cell.

Neighbouring requests are alike, so requests are not resampled one by one. A mean's interval is Student's over the means
of blocks; a percentile's is that of its order statistics, stretched by how much less the blocks know than independent
requests would. Nothing is said of a percentile with too few values: both ends of its interval have to be values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special  # not scipy.stats: it takes longer to load than a short sweep to measure

from harness.metrics.cell import MeasuredCell
from harness.metrics.distribution import percentile_word
from harness.metrics.latency import e2el_ms, tpot_ms, ttft_ms
from harness.records import Metric, Record

LEVEL = 0.95
BLOCKS = 10
FEWEST_IN_A_BLOCK = 5
FEWEST_ROUNDS = 3
F64 = npt.NDArray[np.float64]
LATENCIES: Mapping[str, Callable[[Record], float | None]] = {"ttft": ttft_ms, "tpot": tpot_ms, "e2el": e2el_ms}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Both ends of a confidence interval."""

    low: float
    high: float


def fewest_for(percent: float) -> int:
    """Values needed for a two-sided interval of a percentile: 36 for p90, 72 for p95, 368 for p99, 3,688 for p99.9.

    The smallest n with p^n and (1-p)^n each below half of what is left of the level, p the nearer tail's share.
    """
    share = max(percent, 100 - percent) / 100
    return math.ceil(math.log((1 - LEVEL) / 2) / math.log(share)) if share < 1 else 2**31


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Student's interval of the mean of a series in the order of time, over BLOCKS blocks; None for a short series."""
    if len(values) < BLOCKS * FEWEST_IN_A_BLOCK:
        return None
    return rounds_interval([float(block.mean()) for block in np.array_split(np.asarray(values), BLOCKS)])


def rounds_interval(means: Sequence[float]) -> Interval | None:
    """Student's interval of the mean of independent means; None for fewer than FEWEST_ROUNDS."""
    if len(means) < FEWEST_ROUNDS:
        return None
    centre, spread = float(np.mean(means)), float(np.std(means, ddof=1))
    half = float(special.stdtrit(len(means) - 1, (1 + LEVEL) / 2)) * spread / math.sqrt(len(means))
    return Interval(low=centre - half, high=centre + half)


def percentile_interval(values: Sequence[float], percent: float) -> Interval | None:
    """Interval of a percentile of a series in the order of time; None if there are too few values for it.

    Order statistics of the ranks n q -+ z sqrt(n q (1 - q) d), d at least 1: the variance of block means against that
    of as many independent values.
    """
    count, share = len(values), percent / 100
    if count < fewest_for(percent):
        return None
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    below = (np.asarray(values) <= np.percentile(ordered, percent)).astype(np.float64)
    half = float(special.ndtri((1 + LEVEL) / 2)) * math.sqrt(count * share * (1 - share) * _design_effect(below))
    low, high = math.floor(count * share - half), math.ceil(count * share + half)
    if low < 0 or high > count - 1:
        return None
    return Interval(low=float(ordered[low]), high=float(ordered[high]))


def interval_metrics(cell: MeasuredCell) -> tuple[Metric, ...]:
    """`<name>_low` and `<name>_high` of every latency's mean and percentiles; None, saying why, if n is small."""
    ordered = sorted(cell.completed, key=lambda each: each.invoke.planned_ns)
    metrics: list[Metric] = []
    for name, latency in LATENCIES.items():
        values = [value for each in ordered if (value := latency(each)) is not None]
        metrics += _ends(f"mean_{name}_ms", mean_interval(values), len(values), BLOCKS * FEWEST_IN_A_BLOCK)
        for percent in cell.options.percentiles:
            word = f"{percentile_word(percent)}_{name}_ms"
            metrics += _ends(word, percentile_interval(values, percent), len(values), fewest_for(percent))
    return tuple(metrics)


def _ends(name: str, interval: Interval | None, count: int, needed: int) -> list[Metric]:
    note = None
    if interval is None:
        note = f"needs {needed} values" if count < needed else "values too alike in time for an interval"
    ends = {"low": None if interval is None else interval.low, "high": None if interval is None else interval.high}
    return [Metric(name=f"{name}_{end}", unit="ms", value=value, count=count, note=note) for end, value in ends.items()]


def _design_effect(marks: F64) -> float:
    """Variance of block means over that of independent values, at least 1."""
    blocks = [block for block in np.array_split(marks, BLOCKS) if len(block)]
    variance = float(marks.var())
    if len(blocks) < 2 or variance == 0:
        return 1.0
    observed = float(np.var([block.mean() for block in blocks], ddof=1))
    return max(1.0, observed * (len(marks) / len(blocks)) / variance)
