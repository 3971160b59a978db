"""Nothing is lost when a cell is interrupted or the disk fills."""

from __future__ import annotations

import pytest

from harness.records import ErrorKind, Outcome
from tests.drive.fakes import MS, Endless, Listed, S, Script, ask
from tests.drive.running import cell_spec, run


@pytest.mark.parametrize("after_ms", [0, 1, 7, 12, 60, 61, 90, 137, 1000])
def test_every_request_begun_is_recorded_when_the_cell_is_cancelled(after_ms: int) -> None:
    ran = run(Endless(), cell_spec(4, spread_start_ns=30 * MS), cancel_after_ns=after_ms * MS)
    assert ran.info is None
    asked = [invoke.request_id for invoke in ran.history.invokes if invoke.step == "ask"]
    assert sorted(asked) == sorted(request.request_id for _, request in ran.client.sent)
    assert sorted(asked) == sorted(complete.request_id for complete in ran.history.completes)
    cancelled = [
        each for each in ran.history.completes if each.error is not None and each.error.kind is ErrorKind.CANCELLED
    ]
    assert all(each.outcome is Outcome.UNKNOWN for each in cancelled)
    answered = [each for each in ran.history.completes if each.outcome is Outcome.OK]
    assert len(cancelled) + len(answered) == len(asked)
    assert len(cancelled) <= 4 and (after_ms < 60 or len(cancelled) >= 3)
    assert ran.history.closed and ran.history.info is None
    assert ran.client.in_flight == 0


def test_cancelling_while_waiting_leaves_the_cell_unfinished() -> None:
    ran = run(Listed(steps=(ask("a"), ask("b", planned_ns=60 * S))), cell_spec(2), cancel_after_ns=5 * S)
    assert ran.info is None and ran.history.closed and ran.history.info is None
    assert [complete.outcome for complete in ran.history.completes] == [Outcome.OK]


def test_a_full_disk_stops_the_cell_with_its_own_error() -> None:
    with pytest.raises(OSError, match="the disk is full"):
        run(Endless(), cell_spec(3), fail_after=7)


def test_an_answer_that_is_cut_keeps_what_came() -> None:
    ran = run(
        Listed(steps=(ask("a"),)),
        cell_spec(1),
        lambda request: Script(first_ns=10 * MS, gap_ns=100 * MS, tokens=50),
        cancel_after_ns=S,
    )
    (complete,) = ran.history.completes
    assert complete.outcome is Outcome.UNKNOWN
    assert complete.text is not None and complete.text.count("x") == complete.event_count == 10
    assert ran.history.raws[complete.request_id].count(b"data:") == 10
