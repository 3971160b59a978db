"""Correct goodput: goodput less the share of answers that checks found wrong, and None where nobody judged any."""

from __future__ import annotations

import pytest

from harness.checks.judgement import Judgement
from harness.checks.verdict import Status, Verdict
from harness.metrics import CellSummary
from harness.records import Metric
from harness.report.correct import with_correct_goodput


def cell(goodput: float | None = 4.0) -> CellSummary:
    metrics = (Metric(name="request_goodput", unit="requests/s", value=goodput, count=10),)
    return CellSummary(
        cell="c", workload="agent", concurrency=1, cache_mode="cold", finished=True, metrics=metrics, failures=(),
        warnings=(),
    )  # fmt: skip


def judged(check: str, status: Status, examined: int = 10, violations: int = 0) -> Judgement:
    verdict = Verdict(check=check, status=status, reason="r", examined=examined, violations=violations)
    return Judgement(check=check, verdict=verdict)


def correct(*judgements: Judgement, goodput: float | None = 4.0) -> float | None:
    return with_correct_goodput([cell(goodput)], judgements)[0].value("correct_goodput")


def test_a_pass_leaves_goodput_as_it_is() -> None:
    assert correct(judged("recall", Status.PASS)) == 4.0


def test_a_failure_takes_its_share_of_wrong_answers_away_and_the_worst_counts() -> None:
    assert correct(judged("recall", Status.FAIL, 10, 5)) == pytest.approx(2.0)
    assert correct(judged("stream", Status.PASS), judged("recall", Status.FAIL, 10, 5)) == pytest.approx(2.0)
    assert correct(judged("eviction", Status.FAIL, 10, 8), judged("recall", Status.FAIL, 10, 5)) == pytest.approx(0.8)
    assert correct(judged("eviction", Status.FAIL, 0, 0)) == 0.0


@pytest.mark.parametrize(
    "judgements",
    [
        (),
        (judged("cached-tokens", Status.FAIL, 10, 5),),
        (judged("recall", Status.INCONCLUSIVE),),
        (Judgement(check="recall", traceback="t"),),
    ],
)
def test_unjudged_is_none(judgements: tuple[Judgement, ...]) -> None:
    assert correct(*judgements) is None


def test_without_a_goodput_there_is_nothing_to_correct() -> None:
    assert correct(judged("recall", Status.PASS), goodput=None) is None
    bare = CellSummary(
        cell="c", workload=None, concurrency=None, cache_mode=None, finished=True, metrics=(), failures=(), warnings=()
    )
    assert with_correct_goodput([bare], [judged("recall", Status.PASS)]) == (bare,)
