"""Limits, and the three answers to "has it become slower?"."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.report.compare.comparison import compare
from harness.report.compare.verdict import Limit, Outcome, judge, overall, parse_limits
from tests.report.compare.build import side, write_side


def outcome(tmp_path: Path, tpot_ms: float, *, limit: str = "median_tpot_ms=5%", **more: object) -> Outcome:
    one = side(write_side(tmp_path, "aaaaaa", **more), "A")  # type: ignore[arg-type]
    two = side(write_side(tmp_path, "bbbbbb", tpot_ms=lambda context: tpot_ms, **more), "B")  # type: ignore[arg-type]
    return overall(judge(compare([one, two]).ratios, parse_limits([limit])))


def test_a_change_beyond_noise_and_limit_is_worse(tmp_path: Path) -> None:
    assert outcome(tmp_path, 12.0) is Outcome.WORSE


def test_no_change_is_within_the_limit_when_noise_is_small(tmp_path: Path) -> None:
    assert outcome(tmp_path, 10.0, noise=0.02) is Outcome.WITHIN


def test_an_improvement_is_within_the_limit(tmp_path: Path) -> None:
    assert outcome(tmp_path, 7.0) is Outcome.WITHIN


def test_noise_larger_than_the_limit_cannot_be_told(tmp_path: Path) -> None:
    assert outcome(tmp_path, 10.0, noise=0.6, sessions=8) is Outcome.UNDECIDED


def test_a_fall_of_throughput_is_worse(tmp_path: Path) -> None:
    assert outcome(tmp_path, 20.0, limit="output_throughput=10%", noise=0.02) is Outcome.WORSE


def test_nothing_judged_is_undecided() -> None:
    assert overall([]) is Outcome.UNDECIDED


def test_limits_are_read_as_percent_or_share() -> None:
    limits = parse_limits(["median_tpot_ms=5%", "p99_ttft_ms=0.2,output_throughput=10%"])
    assert limits == [
        Limit(metric="median_tpot_ms", share=0.05),
        Limit(metric="p99_ttft_ms", share=0.2),
        Limit(metric="output_throughput", share=0.1),
    ]


@pytest.mark.parametrize("text", ["median_tpot_ms", "median_tpot_ms=fast", "median_tpot_ms=-5%", "speed=5%"])
def test_a_malformed_limit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text.partition("=")[0]):
        parse_limits([text])
