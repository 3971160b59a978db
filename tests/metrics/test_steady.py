"""The steady window and the intervals: found where they are, refused where they are not."""

from __future__ import annotations

import numpy as np
import pytest

from harness.metrics import MetricOptions
from harness.metrics.cell import MeasuredCell, measured_cell
from harness.metrics.intervals import fewest_for, mean_interval, percentile_interval, rounds_interval
from harness.metrics.steady import mser5, steady_metrics, steady_window
from tests.metrics.build import answered


def cell_of(slow_until_s: float, *, seconds: int = 60, cached_from: float = 0.0) -> MeasuredCell:
    """Ten requests a second; a slow start has TTFTs ten times as long and half the tokens."""
    rng = np.random.default_rng(1)
    records = []
    for number in range(10 * seconds):
        at_ms = number * 100.0
        slow = at_ms < slow_until_s * 1000
        first = at_ms + (500.0 if slow else 50.0) * rng.uniform(0.9, 1.1)
        events = [first + 5 * k for k in range(4 if slow else 8)]
        cached = round(45 * at_ms / seconds / 1000) if cached_from else 20
        records.append(answered(f"r{number}", sent_ms=at_ms, events_ms=events, cached_tokens=cached, planned_ms=at_ms))
    return measured_cell(records, None, MetricOptions())


def test_mser5_cuts_the_warming_up_and_nothing_of_a_settled_series() -> None:
    rng = np.random.default_rng(2)
    settled = rng.normal(100, 3, 200)
    assert (mser5(settled) or 0) <= 40
    warming = np.concatenate([np.linspace(0, 100, 50), settled[:150]])
    cut = mser5(warming)
    assert cut is not None and 35 <= cut <= 70
    assert mser5(np.linspace(0, 100, 200)) is None
    assert mser5(settled[:20]) is None


def test_a_slow_start_is_left_out_of_the_steady_throughput() -> None:
    window = steady_window(cell_of(12.0))
    assert window.start_s is not None and 10 <= window.start_s <= 18
    throughput = steady_metrics(cell_of(12.0))[0]
    assert throughput.value == pytest.approx(80, rel=0.03)


def test_a_cell_that_never_settles_has_no_steady_window() -> None:
    for slow_until_s, why in ((40.0, ""), (50.0, "last part")):
        window = steady_window(cell_of(slow_until_s))
        assert window.start_s is None and window.why_none is not None and why in window.why_none
        assert all(metric.value is None and metric.note for metric in steady_metrics(cell_of(slow_until_s)))


def test_a_cache_that_still_fills_is_not_steady() -> None:
    window = steady_window(cell_of(0.0, cached_from=1.0))
    assert window.start_s is None and window.why_none == "the cached share was still changing"


def test_an_empty_cell_has_no_window() -> None:
    assert steady_window(measured_cell([], None, MetricOptions())).start_s is None


@pytest.mark.parametrize("percent, needed", [(90, 36), (95, 72), (99, 368), (99.9, 3688), (10, 36)])
def test_a_percentile_needs_so_many_values(percent: float, needed: int) -> None:
    assert fewest_for(percent) == needed
    values = [float(value) for value in np.random.default_rng(3).normal(0, 1, needed - 1)]
    assert percentile_interval(values, percent) is None


def covered(make: object, truth: float, interval: object, runs: int = 400) -> float:
    rng = np.random.default_rng(4)
    found = [interval([float(v) for v in make(rng)]) for _ in range(runs)]  # type: ignore[operator]
    return float(np.mean([each is not None and each.low <= truth <= each.high for each in found]))


def test_intervals_cover_what_they_should_for_independent_values() -> None:
    assert 0.9 < covered(lambda rng: rng.normal(5, 2, 500), 5.0, mean_interval) < 0.99
    assert covered(lambda rng: rng.uniform(0, 1, 1000), 0.9, lambda v: percentile_interval(v, 90)) > 0.92


def test_intervals_widen_when_neighbours_are_alike() -> None:
    def drifting(rng: np.random.Generator) -> np.ndarray:
        steps = rng.normal(0, 1, 1000)
        for at in range(1, 1000):
            steps[at] += 0.9 * steps[at - 1]
        return steps

    assert covered(drifting, 0.0, mean_interval) > 0.85


def test_too_few_values_or_rounds_have_no_interval() -> None:
    assert mean_interval([1.0] * 49) is None and rounds_interval([1.0, 2.0]) is None
    interval = rounds_interval([9.0, 10.0, 11.0])
    assert interval is not None and interval.low < 8 and interval.high > 12
