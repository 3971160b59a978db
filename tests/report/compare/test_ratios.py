"""Ratios: the right value, an interval that tells noise from change, pairing where the plan allows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.report.compare.ratios import APART, BLOCKS, PAIRED, Ratio, ratio_at
from harness.report.compare.statistics import statistic_named
from tests.report.compare.build import side, write_side


def compared(metric: str, one: Path, two: Path) -> Ratio:
    a, b = side(one, "A"), side(two, "B")
    return ratio_at(statistic_named(metric), a, b, next(iter(a.rounds)))


def test_a_slower_side_is_shown_to_be_slower_by_its_factor(tmp_path: Path) -> None:
    one, two = write_side(tmp_path, "aaaaaa"), write_side(tmp_path, "bbbbbb", tpot_ms=lambda context: 12.0)
    ratio = compared("median_tpot_ms", one, two)
    assert ratio.low is not None and ratio.high is not None
    assert ratio.low < 1.2 < ratio.high
    assert (ratio.ahead, ratio.method, ratio.pairs, ratio.rounds) == ("A", PAIRED, 96, 2)


def test_equal_sides_are_told_apart_about_as_rarely_as_promised(tmp_path: Path) -> None:
    alarms = 0
    for number in range(20):
        one = write_side(tmp_path, f"a{number:05d}", rounds=1)
        two = write_side(tmp_path, f"b{number:05d}", rounds=1)
        alarms += sum(compared(metric, one, two).shown for metric in ("median_tpot_ms", "median_ttft_ms"))
    assert alarms <= 7  # 40 trials at 5%: 2 expected, more than 7 once in a thousand


def test_throughput_is_that_of_the_whole_cell(tmp_path: Path) -> None:
    one, two = write_side(tmp_path, "aaaaaa"), write_side(tmp_path, "bbbbbb", tpot_ms=lambda context: 20.0)
    ratio = compared("output_throughput", one, two)
    rounds = next(iter(side(one).rounds.values()))
    durations_s = [each.measured.duration_s for each in rounds]
    assert ratio.a == pytest.approx(96 * 17 / sum(each for each in durations_s if each is not None))
    assert ratio.ratio is not None and ratio.ratio == pytest.approx((100 + 160) / (100 + 320), rel=0.05)
    assert ratio.ahead == "A"


def test_plans_that_differ_are_compared_in_blocks(tmp_path: Path) -> None:
    one, two = write_side(tmp_path, "aaaaaa"), write_side(tmp_path, "bbbbbb", digest="cd")
    ratio = compared("median_ttft_ms", one, two)
    assert (ratio.method, ratio.pairs) == (APART, None)


def test_acceptance_comes_from_the_servers_counters_in_blocks(tmp_path: Path) -> None:
    one = write_side(tmp_path, "aaaaaa", acceptance=2.6)
    two = write_side(tmp_path, "bbbbbb", acceptance=2.1)
    ratio = compared("acceptance_length", one, two)
    assert (ratio.a, ratio.b, ratio.method) == (pytest.approx(2.6), pytest.approx(2.1), BLOCKS)
    assert ratio.ahead == "A"


def test_too_few_sessions_give_a_ratio_without_an_interval(tmp_path: Path) -> None:
    one, two = (write_side(tmp_path, token, sessions=2, rounds=1) for token in ("aaaaaa", "bbbbbb"))
    ratio = compared("median_ttft_ms", one, two)
    assert ratio.ratio is not None
    assert (ratio.low, ratio.high, ratio.ahead) == (None, None, None)


def test_a_figure_nobody_reported_has_no_ratio(tmp_path: Path) -> None:
    one, two = (write_side(tmp_path, token, cached=None) for token in ("aaaaaa", "bbbbbb"))
    ratio = compared("cached_share", one, two)
    assert (ratio.a, ratio.b, ratio.ratio) == (None, None, None)


def test_drift_between_rounds_widens_the_interval(tmp_path: Path) -> None:
    one = side(write_side(tmp_path, "aaaaaa"))
    steady = side(write_side(tmp_path, "bbbbbb"), "B")
    point = next(iter(one.rounds))
    slowed = side(write_side(tmp_path, "cccccc", tpot_ms=lambda context: 15.0), "B")
    drifting = {point: (steady.rounds[point][0], slowed.rounds[point][1])}
    statistic = statistic_named("median_tpot_ms")
    calm = ratio_at(statistic, one, steady, point)
    moved = ratio_at(statistic, one, type(steady)(letter="B", label="drifts", run=steady.run, rounds=drifting), point)
    assert calm.low is not None and calm.high is not None and moved.low is not None and moved.high is not None
    assert moved.high / moved.low > 1.3 * calm.high / calm.low


def test_under_open_load_the_arrivals_set_the_rate(tmp_path: Path) -> None:
    one, two = (write_side(tmp_path, token, arrivals="4/s", noise=0.5) for token in ("aaaaaa", "bbbbbb"))
    point = next(iter(side(one).rounds))
    assert point.label == "2,048 tokens, arrivals 4/s"
    ratio = compared("output_throughput", one, two)
    assert ratio.low is not None and ratio.high is not None
    spread = ratio.high / ratio.low
    closed = compared("output_throughput", *(write_side(tmp_path, token, noise=0.5) for token in ("cccccc", "dddddd")))
    assert closed.low is not None and closed.high is not None
    assert spread <= closed.high / closed.low


@pytest.mark.parametrize("name", ["median_inter_event_ms", "p200_ttft_ms", "speed"])
def test_what_cannot_be_compared_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        statistic_named(name)
