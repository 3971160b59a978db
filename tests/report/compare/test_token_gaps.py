"""Inter-token latencies compared: the figure of the gaps, and an interval from their histograms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.compare.ratios import PAIRED, ratio_at
from harness.report.compare.statistics import statistic_named
from harness.report.compare.token_gaps import EDGES_MS, gap_counts, gap_quantile, gap_sums
from tests.metrics.build import answered
from tests.report.compare.build import side, write_side


@pytest.mark.parametrize("metric", ["mean_itl_ms", "median_itl_ms", "p99_itl_ms"])
def test_a_slower_side_is_behind_by_its_factor(metric: str, tmp_path: Path) -> None:
    one = side(write_side(tmp_path, "aaaaaa"))
    two = side(write_side(tmp_path, "bbbbbb", tpot_ms=lambda context: 15.0), "B")
    ratio = ratio_at(statistic_named(metric), one, two, next(iter(one.rounds)))
    assert ratio.low is not None and ratio.high is not None
    assert 1.2 < ratio.low < 1.5 < ratio.high < 1.9
    assert (ratio.ahead, ratio.method) == ("A", PAIRED)


def test_the_figure_is_that_of_the_summary(tmp_path: Path) -> None:
    one = side(write_side(tmp_path, "aaaaaa", rounds=1))
    rounds = next(iter(one.rounds.values()))
    assert one.run is not None
    for metric in ("mean_itl_ms", "p99_itl_ms"):
        assert statistic_named(metric).value(rounds) == pytest.approx(one.run.cells[0].value(metric))


@given(st.lists(st.floats(0.01, 5_000), min_size=1, max_size=60), st.sampled_from([0.1, 0.5, 0.9, 0.99]))
def test_a_quantile_of_a_histogram_is_within_a_bin_of_the_exact_one(gaps_ms: list[float], share: float) -> None:
    counts = gap_counts(answered("a", events_ms=[0.0, *np.cumsum(gaps_ms)]))
    assert counts is not None and sum(counts) == len(gaps_ms)
    found = gap_quantile(share, np.array([counts]), np.ones((1, 1)))[0]
    exact = np.quantile(np.diff(np.array([int(each * 1e6) for each in [0.0, *np.cumsum(gaps_ms)]])) / 1e6, share,
                        method="inverted_cdf")  # fmt: skip
    bin_width = EDGES_MS[2] / EDGES_MS[1]
    assert exact / bin_width <= found <= exact * bin_width


def test_a_single_event_has_no_gaps() -> None:
    assert gap_counts(answered("a", events_ms=[5.0])) is None
    assert gap_sums(answered("a", events_ms=[5.0])) is None
