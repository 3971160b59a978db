"""The heartbeat between phases: which phase it was after which fixed probes were answered otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from harness.checks.heartbeat.beats import Beat, beats, by_phase, noise_of
from harness.checks.history import CheckHistory
from harness.checks.verdict import Evidence, Status, Verdict
from harness.gate.order import PULSE
from workloads.heartbeat import BEFORE
from workloads.plan import Json

WENT_WRONG_AFTER = "went_wrong_after"
FEWEST_WRONG_PROBES = 2
LARGEST_NOISE = 0.25


def judge_pulse(history: CheckHistory) -> Verdict:
    """FAIL if two probes are wrong in one battery, or one in two; SUSPECT if one was wrong once."""
    phases = by_phase(history)
    noise = noise_of(phases.get(BEFORE, []))
    found = tuple(beats(phases, noise))
    wrong = [beat for beat in found if beat.wrong is not None]
    compared = sum(beat.compared > 0 for beat in found)
    first = wrong[0].phase if wrong else None
    status, reason = Status.PASS, f"{compared} probes after {len(phases) - 1} phases are as before"
    if len(phases) < 2 or BEFORE not in phases:
        status, reason = Status.INCONCLUSIVE, "no battery was asked after a phase"
    elif first is not None and _stays(wrong):
        status = Status.FAIL
        reason = f"answers went wrong {first}, {_in_words(wrong[0])}"
    elif first is not None:
        status = Status.SUSPECT
        reason = f"one probe was wrong once, {first}, {_in_words(wrong[0])}"
    elif not compared:
        status, reason = Status.INCONCLUSIVE, "no probe could be compared with its answer before the first phase"
    elif noise is not None and noise > LARGEST_NOISE:
        status = Status.INCONCLUSIVE
        reason = f"probes before the first phase differ among themselves by {noise:.2f} nats: too noisy to compare"
    return Verdict(
        check=PULSE,
        status=status,
        reason=reason,
        eligible=len(found),
        examined=compared,
        violations=len(wrong),
        evidence=tuple(_evidence(beat) for beat in wrong[:5]),
        details=_details(history, first, noise),
    )


def wants_another(verdict: Verdict) -> bool:
    """Whether one more battery would tell a lasting change from a passing one."""
    return verdict.status is Status.SUSPECT


def _stays(wrong: Sequence[Beat]) -> bool:
    """Several probes at once, or one and the same again."""
    for beat in wrong:
        at_once = {other.probe for other in wrong if other.phase == beat.phase}
        again = {other.phase for other in wrong if (other.probe, other.salted) == (beat.probe, beat.salted)}
        if len(at_once) >= FEWEST_WRONG_PROBES or len(again) > 1:
            return True
    return False


def _details(history: CheckHistory, first: str | None, noise: float | None) -> dict[str, Json]:
    phases = list(by_phase(history))
    return {
        "batteries": phases,
        WENT_WRONG_AFTER: None if first is None else first.removeprefix("after "),
        "noise_nats": noise,
    }


def _in_words(beat: Beat) -> str:
    near = "" if beat.distance is None else f", {beat.distance:.2f} nats RMS from the nearest answer before"
    return f"probe {beat.probe}{' under a fresh salt' if beat.salted else ''}: {beat.wrong}{near}"


def _evidence(beat: Beat) -> Evidence:
    return Evidence(
        request_ids=tuple(answer.record.invoke.request_id for answer in beat.answers),
        text=f"{beat.phase}, {_in_words(beat)}",
        table=beat.evidence().table,
    )
