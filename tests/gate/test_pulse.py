"""The heartbeat between phases: it names the phase after which answers went wrong, and forgives what passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from harness.checks.history import Answer, Capabilities, CheckHistory
from harness.checks.verdict import Status
from harness.gate.pulse import WENT_WRONG_AFTER, judge_pulse, wants_another
from harness.records import Complete, ErrorKind, Outcome, RequestError
from tests.checks.parity.test_judge import answer
from workloads.plan import Json

PROBES, REPEATS = 3, 3
PHASES = ("before", "after stream", "after eviction", "after overload")


def battery(phase: str, shift: Callable[[int], float] = lambda probe: 0.0) -> list[Answer]:
    """All probes of a battery; `shift` gives nats by which a probe's answers are off."""
    found = []
    for probe in range(PROBES):
        for repeat in range(REPEATS):
            made = answer("pulse", probe, phase, repeat, shift=shift(probe) + 0.01 * repeat, cached_tokens=128)
            labels: dict[str, Json] = {"probe": probe, "phase": phase, "salted": False, "repeat": repeat}
            record = replace(made.record, invoke=replace(made.record.invoke, labels=labels))
            found.append(replace(made, record=record))
    return found


def history(*batteries: list[Answer]) -> CheckHistory:
    answers = tuple(each for made in batteries for each in made)
    return CheckHistory(answers=answers, capabilities=Capabilities())


def lost(made: Answer) -> Answer:
    error = RequestError(kind=ErrorKind.CONNECT, message="refused")
    complete = Complete(request_id=made.record.complete.request_id, outcome=Outcome.REFUSED, error=error)
    return replace(made, logprobs=None, record=replace(made.record, complete=complete))


def test_answers_that_stay_pass() -> None:
    verdict = judge_pulse(history(*map(battery, PHASES)))
    assert verdict.status is Status.PASS
    assert verdict.examined == PROBES * 3
    assert verdict.details[WENT_WRONG_AFTER] is None


def test_the_first_phase_after_which_two_probes_changed_is_named() -> None:
    wrong = [battery(phase, lambda probe: 2.0 if probe else 0.0) for phase in PHASES[2:]]
    verdict = judge_pulse(history(*map(battery, PHASES[:2]), *wrong))
    assert verdict.status is Status.FAIL
    assert verdict.details[WENT_WRONG_AFTER] == "eviction"
    assert verdict.evidence[0].request_ids


def test_one_probe_wrong_once_wants_another_battery_and_twice_fails() -> None:
    once = battery(PHASES[1], lambda probe: 2.0 if probe == 1 else 0.0)
    verdict = judge_pulse(history(battery("before"), once))
    assert verdict.status is Status.SUSPECT
    assert wants_another(verdict)
    assert judge_pulse(history(battery("before"), once, battery(PHASES[2]))).status is Status.SUSPECT
    again = battery(PHASES[2], lambda probe: 2.0 if probe == 1 else 0.0)
    assert judge_pulse(history(battery("before"), once, again)).status is Status.FAIL


def test_a_server_that_is_gone_went_wrong_after_that_phase() -> None:
    verdict = judge_pulse(history(battery("before"), list(map(lost, battery(PHASES[1])))))
    assert verdict.status is Status.FAIL
    assert verdict.details[WENT_WRONG_AFTER] == "stream"


def test_nothing_to_compare_is_undecided() -> None:
    assert judge_pulse(history([])).status is Status.INCONCLUSIVE
    assert judge_pulse(history(battery("before"))).status is Status.INCONCLUSIVE
    assert judge_pulse(history(battery("before")[:0], battery(PHASES[1]))).status is Status.INCONCLUSIVE


def test_probes_that_differ_before_anything_happened_decide_nothing() -> None:
    noisy = [replace(each) for each in battery("before")]
    noisy[1] = battery("before", lambda probe: 0.4)[1]
    assert judge_pulse(history(noisy, battery(PHASES[1]))).status is Status.INCONCLUSIVE
