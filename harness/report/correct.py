"""Goodput of right answers: what was fast enough, less the share of answers that checks of the run found wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from harness.checks.judgement import Judgement
from harness.checks.verdict import Status, Verdict
from harness.metrics import CellSummary
from harness.records import Metric

NAME = "correct_goodput"
GOODPUT = "request_goodput"
# Checks whose violations are answers that are wrong.
ABOUT_ANSWERS = ("recall", "eviction", "isolation", "tiers", "spec-parity", "parity", "heartbeat", "stream")
UNJUDGED = "no check of this run judged answers"


def with_correct_goodput(cells: Sequence[CellSummary], judgements: Iterable[Judgement]) -> tuple[CellSummary, ...]:
    """Every cell that has a goodput, with its correct goodput beside it; None where no answer was judged."""
    decided = [each.verdict for each in judgements if each.verdict is not None and _decides(each.verdict)]
    worst = max(decided, key=_wrong_share, default=None)
    return tuple(_with(cell, worst) for cell in cells)


def _decides(verdict: Verdict) -> bool:
    return verdict.check in ABOUT_ANSWERS and verdict.status in (Status.PASS, Status.FAIL)


def _wrong_share(verdict: Verdict) -> float:
    """Of the answers that a check examined, those it found wrong; all of them if it cannot say how many there were."""
    if verdict.status is not Status.FAIL:
        return 0.0
    return 1.0 if verdict.examined < 1 else min(1.0, max(1, verdict.violations) / verdict.examined)


def _with(cell: CellSummary, worst: Verdict | None) -> CellSummary:
    goodput = cell.metric(GOODPUT)
    if goodput is None:
        return cell
    value, note = None, UNJUDGED
    if worst is not None and goodput.value is not None:
        value = goodput.value * (1.0 - _wrong_share(worst))
        note = "no answer was found wrong"
        if worst.status is Status.FAIL:
            note = f"{_wrong_share(worst):.1%} of the answers judged by {worst.check} are wrong"
    metric = Metric(name=NAME, unit=goodput.unit, value=value, count=goodput.count, note=note)
    return replace(cell, metrics=(*cell.metrics, metric))
