"""The verdict on the batteries: what stays wrong is a failure, what was wrong once asks for another battery."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.degenerate import CERTAIN, garbage, numberless
from harness.checks.heartbeat.beats import SMALLEST_CHANGE, TIMES_NOISE, Beat, beats, by_phase, noise_of
from harness.checks.heartbeat.leftovers import Leftovers, leftovers
from harness.checks.history import Answer, CheckHistory
from harness.checks.verdict import Evidence, FollowUp, Status, Verdict
from harness.records import Outcome
from workloads.heartbeat import AFTER, BEFORE, BETWEEN, LOAD, NAME
from workloads.plan import Json

FEWEST_COMPARED = 8
FEWEST_WRONG_PROBES = 2
FEWEST_CERTAIN = 2
LARGEST_NOISE = 0.25
LOAD_SHARE = 0.5
NO_NUMBER = "a token without a log-probability, where other answers have one"
# Prompts of all lengths that end at once, or in one token again and again, are no model's answers.
DEAD_SHARE, FEWEST_DEAD = 0.75, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    history: CheckHistory
    beats: Sequence[Beat]
    noise: float | None
    certain: Sequence[Answer]
    leftovers: Leftovers
    load_asked: int
    load_answered: int

    @property
    def wrong(self) -> list[Beat]:
        return [beat for beat in self.beats if beat.wrong is not None]

    @property
    def compared(self) -> int:
        return sum(beat.compared > 0 for beat in self.beats)

    @property
    def sticky(self) -> list[Beat]:
        """Wrong probes of a battery that has several, and probes that are wrong in several batteries."""
        by_probe: dict[tuple[str, bool], set[str]] = defaultdict(set)
        by_phase: dict[str, set[str]] = defaultdict(set)
        for beat in self.wrong:
            by_probe[beat.probe, beat.salted].add(beat.phase)
            by_phase[beat.phase].add(beat.probe)
        return [
            beat
            for beat in self.wrong
            if len(by_phase[beat.phase]) >= FEWEST_WRONG_PROBES or len(by_probe[beat.probe, beat.salted]) > 1
        ]


def judge(history: CheckHistory) -> Verdict:
    """The verdict; without a battery after load there is none."""
    found = _find(history)
    if len(found.certain) >= FEWEST_CERTAIN:
        signs = dict.fromkeys(_sign(answer) for answer in found.certain)
        reason = f"{len(found.certain)} answers are garbage: {', '.join(signs)}"
        return _verdict(found, Status.FAIL, reason, [_shown(answer) for answer in found.certain])
    if (dead := _dead_battery(found)) is not None:
        return dead
    if found.leftovers.certain:
        return _left_behind(found)
    if found.sticky:
        probes = {(beat.probe, beat.salted) for beat in found.sticky}
        reason = f"{len(probes)} probes stay wrong: {found.sticky[0].evidence().text}"
        return _verdict(found, Status.FAIL, reason, [beat.evidence() for beat in found.sticky])
    if found.wrong:
        return _once(found)
    return _undecided(found) or _sound(found)


def _left_behind(found: _Findings) -> Verdict:
    left = found.leftovers
    worst = sorted(left.unsteady, key=lambda each: each.nats, reverse=True)
    reason = (
        f"short prompts depend on what was served before them: computed anew, alone, they part by up to"
        f" {worst[0].nats:.2f} nats in {left.batteries} batteries, long ones by {left.long_nats:.2f}"
    )
    return _verdict(found, Status.FAIL, reason, [each.evidence() for each in worst])


def _dead_battery(found: _Findings) -> Verdict | None:
    """A battery in which nearly every prompt gets degenerate answers, whatever came before."""
    for phase, answers in by_phase(found.history).items():
        asked = {str(answer.record.invoke.labels.get("probe")) for answer in answers}
        broken = [answer for answer in answers if garbage(answer) is not None]
        probes = {str(answer.record.invoke.labels.get("probe")) for answer in broken}
        if phase != LOAD and len(probes) >= max(FEWEST_DEAD, DEAD_SHARE * len(asked)):
            reason = f"{len(probes)} of {len(asked)} prompts get degenerate answers {phase} load: {garbage(broken[0])}"
            return _verdict(found, Status.FAIL, reason, [_shown(answer) for answer in broken])
    return None


def _find(history: CheckHistory) -> _Findings:
    phases = by_phase(history)
    load = phases.get(LOAD, [])
    answered = [answer for answer in history.answers if answer.record.complete.outcome is Outcome.OK]
    silent = {id(answer) for answer in numberless([each for each in answered if each.logprobs])}
    noise = noise_of([answer for answer in phases.get(BEFORE, []) if garbage(answer) is None])
    return _Findings(
        history=history,
        beats=tuple(beats(phases, noise)),
        noise=noise,
        leftovers=leftovers(phases),
        certain=[answer for answer in answered if garbage(answer) in CERTAIN or id(answer) in silent],
        load_asked=len(load),
        load_answered=sum(answer.record.complete.outcome is Outcome.OK for answer in load),
    )


def _once(found: _Findings) -> Verdict:
    shown = [beat.evidence() for beat in found.wrong]
    follow_up = None
    if found.history.rounds < 2:
        follow_up = FollowUp(check=NAME, stratum={"battery": "again"}, count=len(found.wrong), why=shown[0].text)
    return _verdict(found, Status.SUSPECT, f"one probe was wrong once: {shown[0].text}", shown, follow_up)


def _undecided(found: _Findings) -> Verdict | None:
    phases = {beat.phase for beat in found.beats}
    if not {BETWEEN, AFTER} & phases:
        why = "nothing was answered" if not found.history.answers else "no battery was asked after load"
        return _verdict(found, Status.INCONCLUSIVE, why)
    if found.load_answered < LOAD_SHARE * max(1, found.load_asked):
        reason = f"not exercised: {found.load_answered} of {found.load_asked} requests of load were answered"
        return _verdict(found, Status.INCONCLUSIVE, reason)
    if found.compared < FEWEST_COMPARED:
        reason = f"only {found.compared} probes could be compared with their answer before load"
        return _verdict(found, Status.INCONCLUSIVE, reason)
    if found.noise is not None and found.noise > LARGEST_NOISE:
        reason = f"probes before load differ among themselves by {found.noise:.2f} nats: too noisy to compare"
        return _verdict(found, Status.INCONCLUSIVE, reason)
    return None


def _sound(found: _Findings) -> Verdict:
    farthest = max((beat.distance for beat in found.beats if beat.distance is not None), default=0.0)
    noise = "" if found.noise is None else f" (noise before load {found.noise:.3f})"
    reason = f"{found.compared} probes after load are as before, within {farthest:.3f} nats{noise}"
    if not any(beat.salted for beat in found.beats):
        reason += "; without salts, so that only kept prompts were probed again"
    return _verdict(found, Status.PASS, reason)


def _shown(answer: Answer) -> Evidence:
    invoke = answer.record.invoke
    return Evidence(request_ids=(invoke.request_id,), text=f"{invoke.key}: {_sign(answer)}")


def _sign(answer: Answer) -> str:
    found = garbage(answer)
    certain = found is not None and (
        found in CERTAIN or not any(each.logprob is None for each in answer.logprobs or ())
    )
    return str(found) if certain else NO_NUMBER


def _verdict(
    found: _Findings,
    status: Status,
    reason: str,
    evidence: Sequence[Evidence] = (),
    follow_up: FollowUp | None = None,
) -> Verdict:
    return Verdict(
        check=NAME,
        status=status,
        reason=reason,
        eligible=len(found.beats),
        examined=found.compared,
        violations=len(evidence),
        evidence=tuple(evidence[:10]),
        smallest_effect={}
        if found.noise is None
        else {"change of a probe": max(SMALLEST_CHANGE, TIMES_NOISE * found.noise)},
        follow_up=follow_up,
        details=_details(found),
    )


def _details(found: _Findings) -> dict[str, Json]:
    phases = dict.fromkeys(beat.phase for beat in found.beats)
    wrong: dict[str, Json] = {
        phase: sorted({beat.probe for beat in found.wrong if beat.phase == phase}) for phase in phases
    }
    return {
        "batteries": list(phases),
        "wrong_probes": wrong,
        "load_requests": found.load_asked,
        "load_answered": found.load_answered,
        "noise_nats": found.noise,
        "unsteady_short_probes": len(found.leftovers.unsteady),
        "long_probes_nats": found.leftovers.long_nats,
        "salted": any(beat.salted for beat in found.beats),
        "cut_short": found.history.cut_short,
    }
