"""Crossovers and growth, from runs whose costs are known."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.compare.comparison import Comparison, compare
from harness.report.compare.crossover import crossings
from harness.report.compare.verdict import sentences
from tests.report.compare.build import side, write_side

CONTEXTS = (512, 2_048, 8_192)


def hybrid_ms(context: int) -> float:
    return 6.0 + 0.25 * context / 1_024


def attention_ms(context: int) -> float:
    return 4.0 + 1.5 * context / 1_024


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("runs")
    more = {"contexts": CONTEXTS, "levels": (1, 8), "noise": 0.05}
    hybrid = write_side(folder, "aaaaaa", tpot_ms=hybrid_ms, **more)  # type: ignore[arg-type]
    attention = write_side(folder, "bbbbbb", tpot_ms=attention_ms, **more)  # type: ignore[arg-type]
    return compare([side(hybrid, "A"), side(attention, "B")])


def test_the_crossover_lies_where_the_costs_are_equal(comparison: Comparison) -> None:
    found = [each for each in comparison.crossovers if (each.metric, each.axis) == ("median_tpot_ms", "context length")]
    assert [each.fixed for each in found] == ["concurrency 1", "concurrency 8"]
    for each in found:
        # 6 + 0.25 x = 4 + 1.5 x at 1,638 tokens; the interpolation bends a little
        assert each.at == pytest.approx(1_638, rel=0.15)
        assert each.low is not None and each.high is not None and each.low < each.at < each.high
        assert (each.ahead_before, each.ahead_after, each.shown) == ("B", "A", True)


def test_growth_is_the_slope_of_each_side(comparison: Comparison) -> None:
    found = [each for each in comparison.growths if each.metric == "median_tpot_ms"]
    assert len(found) == 2
    for each in found:
        assert each.a.slope_ms == pytest.approx(0.25, rel=0.25)
        assert each.b.slope_ms == pytest.approx(1.5, rel=0.1)
        assert each.ratio_low is not None and each.ratio_high is not None and each.ratio_low < 6 < each.ratio_high


def test_the_verdict_tells_both_in_words(comparison: Comparison) -> None:
    told = " ".join(sentences(comparison))
    assert re.search(r"In median TPOT at concurrency 8, B is ahead below and A above about 1,\d{3} tokens", told)
    assert "each 1,024 tokens of context add 0.2" in told


def test_no_crossover_where_one_side_is_ahead_throughout(tmp_path: Path) -> None:
    paths = [write_side(tmp_path, token, tpot_ms=cost, contexts=CONTEXTS) for token, cost in
             (("aaaaaa", lambda context: 5.0), ("bbbbbb", lambda context: 9.0))]  # fmt: skip
    compared = compare([side(paths[0], "A"), side(paths[1], "B")])
    line = next(
        each for each in compared.crossovers if (each.metric, each.axis) == ("median_tpot_ms", "context length")
    )
    assert (line.at, line.ahead_before, line.ahead_after) == (None, "A", "A")


@given(logs=st.lists(st.floats(-2, 2), min_size=2, max_size=6), direction=st.sampled_from([1.0, -1.0]))
def test_a_crossing_lies_between_the_points_it_separates(logs: list[float], direction: float) -> None:
    places = 2.0 ** np.arange(len(logs))
    at = crossings(places, np.array([logs]), direction)[0]
    above = [direction * each >= 0 for each in logs]
    if above[0]:
        assert at == 0
    elif not any(above):
        assert np.isinf(at)
    else:
        after = above.index(True)
        assert places[after - 1] * 0.999 <= at <= places[after] * 1.001
