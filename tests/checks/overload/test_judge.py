"""The verdict on overload, on histories written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.checks.history import Answer, Capabilities, CheckHistory
from harness.checks.overload.facts import Fate, fate_of
from harness.checks.overload.judge import judge
from harness.checks.verdict import Status
from harness.records import Complete, ErrorKind, Outcome, RequestError
from tests.checks.isolation.histories import Said, answer, codeword
from workloads.plan import Json

MS = 1_000_000


def timed(number: int, said: Said, cycle: int, size: int, ttft_ms: int) -> Answer:
    """An answer of a cycle that began at its number in seconds."""
    made = answer(number, said)
    labels: dict[str, Json] = {**made.record.invoke.labels, "cycle": cycle, "size": size}
    invoke = replace(made.record.invoke, cell=f"overload-r{said.round_index}", labels=labels)
    sent_ns = number * 1000 * MS
    first_ns = sent_ns + ttft_ms * MS
    complete = replace(made.record.complete, sent_ns=sent_ns, first_token_ns=first_ns, end_ns=first_ns + MS)
    return replace(made, record=replace(made.record, invoke=invoke, complete=complete))


def failed(made: Answer, kind: ErrorKind, message: str = "no", status: int | None = None) -> Answer:
    complete = Complete(
        request_id=made.record.complete.request_id,
        outcome=Outcome.REFUSED,
        error=RequestError(kind=kind, message=message, http_status=status),
        sent_ns=made.record.complete.sent_ns,
        end_ns=made.record.complete.end_ns,
    )
    return replace(made, record=replace(made.record, complete=complete), logprobs=None)


def round_of(index: int = 0, *, waits_ms: int = 500, after_ms: int = 20, shift: float = 0.0) -> list[Answer]:
    """Four sessions alone twice, twelve requests at once, the four alone again twice."""
    plan = [
        *((Said(session=s, arm="solo", round_index=index), 0, 1, 20) for _ in range(2) for s in range(4)),
        *((Said(session=s % 4, arm="burst", round_index=index), 1, 12, waits_ms) for s in range(12)),
        *(
            (Said(session=s % 4, arm="after", shift=shift, round_index=index), 1, 1, after_ms)
            for s in range(8)
        ),
    ]  # fmt: skip
    return [timed(100 * index + number, *each) for number, each in enumerate(plan)]


def history(*rounds: Sequence[Answer], cut_short: str | None = None) -> CheckHistory:
    answers = tuple(each for made in rounds for each in made)
    return CheckHistory(
        answers=answers, capabilities=Capabilities(engine="vllm"), rounds=len(rounds), cut_short=cut_short
    )


def with_burst(
    made: list[Answer], count: int, kind: ErrorKind, message: str = "no", status: int | None = None
) -> list[Answer]:
    """The first so many requests of the burst failed."""
    return [failed(each, kind, message, status) if 8 <= at < 8 + count else each for at, each in enumerate(made)]


def test_all_wait_and_come_back_as_they_were() -> None:
    verdict = judge(history(round_of()))
    assert verdict.status is Status.PASS, verdict.reason
    assert "all waited" in verdict.reason
    assert verdict.details["recovery_s"] == [pytest.approx(0.52, abs=0.02)]


def test_clear_refusals_pass_and_are_counted() -> None:
    verdict = judge(history(with_burst(round_of(), 5, ErrorKind.HTTP_STATUS, "The queue is full", 503)))
    assert verdict.status is Status.PASS
    assert (verdict.details["refused"], verdict.details["refusal"]) == (5, "The queue is full")


def test_lost_requests_have_to_be_lost_again() -> None:
    lost = with_burst(round_of(), 1, ErrorKind.DISCONNECTED)
    once = judge(history(lost))
    assert once.status is Status.SUSPECT
    assert once.follow_up is not None
    assert judge(history(lost, round_of(1))).status is Status.SUSPECT
    assert judge(history(lost, round_of(1))).follow_up is None
    assert judge(history(lost, with_burst(round_of(1), 1, ErrorKind.DISCONNECTED))).status is Status.FAIL


def test_a_codeword_of_another_request_fails() -> None:
    made = round_of()
    made[10] = timed(10, Said(session=2, arm="burst", text=codeword(1)), 1, 12, 500)
    verdict = judge(history(made))
    assert verdict.status is Status.FAIL
    assert codeword(1) in verdict.evidence[0].text


def test_answers_that_changed_for_good_fail_and_one_alone_asks_again() -> None:
    assert judge(history(round_of(shift=2.0))).status is Status.FAIL
    made = round_of()
    for at in (20, 24):
        made[at] = timed(at, Said(session=0, arm="after", shift=2.0), 1, 1, 20)
    assert judge(history(made)).status is Status.SUSPECT
    made[24] = timed(24, Said(session=0, arm="after"), 1, 1, 20)
    assert judge(history(made)).status is Status.PASS


def test_a_server_that_is_gone_afterwards_fails() -> None:
    made = [failed(each, ErrorKind.CONNECT) if at >= 20 else each for at, each in enumerate(round_of())]
    verdict = judge(history(made))
    assert verdict.status is Status.FAIL
    assert "nothing was answered any more" in verdict.reason


def test_what_was_no_overload_is_not_a_pass() -> None:
    verdict = judge(history(round_of(waits_ms=20)))
    assert verdict.status is Status.INCONCLUSIVE
    assert "--budget" in verdict.reason


def test_a_server_that_stays_slow_is_suspect() -> None:
    assert judge(history(round_of(after_ms=5000))).status is Status.SUSPECT


def test_nothing_asked_or_answered_is_undecided() -> None:
    assert judge(history([])).status is Status.INCONCLUSIVE
    assert judge(history(round_of()[:8])).status is Status.INCONCLUSIVE
    assert judge(history(with_burst(round_of(), 12, ErrorKind.HTTP_STATUS, "no", 503))).status is Status.INCONCLUSIVE


def test_what_the_harness_gave_up_itself_is_not_lost() -> None:
    made = with_burst(round_of(), 3, ErrorKind.CANCELLED)
    assert judge(history(made, cut_short="time")).status is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("kind", "message", "status", "fate"),
    [
        (ErrorKind.HTTP_STATUS, "slow down", 429, Fate.REFUSED),
        (ErrorKind.HTTP_STATUS, "internal", 500, Fate.LOST),
        (ErrorKind.STREAM_ERROR, "The request queue is full.", None, Fate.REFUSED),
        (ErrorKind.STREAM_ERROR, "EngineCore encountered an issue", None, Fate.LOST),
        (ErrorKind.FIRST_BYTE_TIMEOUT, "nothing came", None, Fate.LOST),
    ],
)
def test_what_counts_as_a_clear_refusal(kind: ErrorKind, message: str, status: int | None, fate: Fate) -> None:
    assert fate_of(failed(round_of()[0], kind, message, status).record.complete) is fate
