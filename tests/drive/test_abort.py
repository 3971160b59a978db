"""Requests whose plan drops them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.records import ErrorKind, Outcome
from tests.drive.fakes import MS, Listed, ask
from tests.drive.running import cell_spec, run


@pytest.mark.parametrize(("events", "took_ms"), [(0, 0), (1, 50), (3, 70)])
def test_an_abort_comes_after_so_many_events_and_is_unknown(events: int, took_ms: int) -> None:
    ran = run(Listed(steps=(replace(ask("k"), abort_after_events=events),)), cell_spec())
    (complete,) = ran.history.completes
    assert complete.outcome is Outcome.UNKNOWN
    assert complete.error is not None and complete.error.kind is ErrorKind.CANCELLED
    assert complete.event_count == events
    assert complete.end_ns is not None and complete.sent_ns is not None
    assert complete.end_ns - complete.sent_ns == took_ms * MS
    assert ran.history.invokes[0].abort_after_events == events


def test_the_place_of_an_aborted_request_is_free_at_once() -> None:
    steps = (replace(ask("dropped"), abort_after_events=1), ask("next"))
    ran = run(Listed(steps=steps), cell_spec(concurrency=1))
    (first_ns, _), (second_ns, _) = ran.client.sent
    assert second_ns - first_ns == 50 * MS
    assert [each.outcome for each in ran.history.completes] == [Outcome.UNKNOWN, Outcome.OK]


def test_other_requests_are_not_aborted() -> None:
    ran = run(Listed(steps=(ask("k"),)), cell_spec())
    assert ran.history.completes[0].outcome is Outcome.OK
    assert ran.history.invokes[0].abort_after_events is None


def test_an_abort_before_nothing_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="abort_after_events"):
        replace(ask("k"), abort_after_events=-1)
