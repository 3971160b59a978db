"""The verdict on overload: what was lost, what leaked, what stayed wrong; and what was never overloaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.history import Answer, CheckHistory
from harness.checks.isolation.facts import Distance, distances, rows_of
from harness.checks.isolation.leaks import Leak, leaks_in
from harness.checks.overload.facts import NS_PER_S, Burst, Fate, bursts_of, fate_of, round_of
from harness.checks.verdict import Evidence, FollowUp, Status, Verdict
from workloads.overload import AFTER, NAME, SOLO
from workloads.plan import Json

SMALLEST_CHANGE = 0.5
TIMES_NOISE = 8.0
SURE_FLIP = 1.0
FEWEST_WRONG = 2
SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    """dead: nothing asked after a burst was answered. wrong: sessions whose every answer after a burst had changed."""

    history: CheckHistory
    bursts: Sequence[Burst]
    leaks: Sequence[Leak]
    wrong: Sequence[Distance]
    compared: int
    limit: float
    dead: Sequence[Answer]

    @property
    def lost(self) -> list[Answer]:
        return [answer for burst in self.bursts for answer in burst.fates.get(Fate.LOST, ())]

    def count(self, fate: Fate) -> int:
        return sum(burst.count(fate) for burst in self.bursts)


def judge(history: CheckHistory) -> Verdict:
    """The verdict on all rounds."""
    found = _find(history)
    if found.dead:
        reason = f"after a burst of {found.bursts[-1].size} nothing was answered any more"
        return _verdict(found, Status.FAIL, reason, [_lost_evidence(each) for each in found.dead])
    if found.leaks:
        reason = f"{len(found.leaks)} answers hold the codeword of another request"
        return _verdict(found, Status.FAIL, reason, [_leak_evidence(each) for each in found.leaks])
    sessions = {each.row.session for each in found.wrong}
    if len(sessions) >= FEWEST_WRONG:
        reason = f"{len(sessions)} prompts are answered otherwise after the burst than before"
        return _verdict(found, Status.FAIL, reason, [_wrong_evidence(each) for each in found.wrong])
    if found.lost:
        return _lost(found)
    if sessions:
        return _again(found, "one prompt was answered otherwise after a burst", _wrong_evidence(found.wrong[0]))
    return _undecided(found) or _sound(found)


def _find(history: CheckHistory) -> _Findings:
    rows = rows_of(history)
    measured = distances(rows)
    noise = max((each.rms for each in measured if each.row.arm == SOLO and each.rms is not None), default=0.0)
    limit = max(SMALLEST_CHANGE, TIMES_NOISE * noise)
    after = [each for each in measured if each.row.arm == AFTER and each.rms is not None]
    right = {(each.row.session, each.row.cycle) for each in after if not _changed(each, limit)}
    return _Findings(
        history=history,
        bursts=bursts_of(history),
        leaks=leaks_in([row for row in rows if row.codeword is not None]).certain,
        wrong=[each for each in after if (each.row.session, each.row.cycle) not in right],
        compared=len(after),
        limit=limit,
        dead=_dead(history),
    )


def _changed(distance: Distance, limit: float) -> bool:
    assert distance.rms is not None
    return distance.rms > limit or (distance.flip is not None and distance.flip > max(SURE_FLIP, 2 * limit))


def _dead(history: CheckHistory) -> list[Answer]:
    """The probes after the last burst, if none of them was answered."""
    probes = [answer for answer in history.answers if answer.record.invoke.arm == AFTER]
    if not probes:
        return []
    last = probes[-1].record.invoke.labels.get("cycle"), round_of(probes[-1])
    asked = [each for each in probes if (each.record.invoke.labels.get("cycle"), round_of(each)) == last]
    fates = [fate_of(each.record.complete) for each in asked]
    return asked if all(fate in (Fate.LOST, Fate.REFUSED) for fate in fates) else []


def _lost(found: _Findings) -> Verdict:
    """Lost requests count when a second round loses some too."""
    words = f"{len(found.lost)} requests of the bursts were neither answered nor clearly refused"
    evidence = [_lost_evidence(each) for each in found.lost]
    rounds = {round_of(each) for each in found.lost}
    if len(rounds) > 1:
        return _verdict(found, Status.FAIL, f"{words}, in {len(rounds)} rounds", evidence)
    return _again(found, words, *evidence)


def _again(found: _Findings, words: str, *evidence: Evidence) -> Verdict:
    follow_up = None
    if found.history.rounds < 2:
        follow_up = FollowUp(check=NAME, stratum={"bursts": "again"}, count=1, why=words)
    elif found.history.rounds > 1:
        words += "; another round did not repeat it"
    return _verdict(found, Status.SUSPECT, words, evidence, follow_up)


def _undecided(found: _Findings) -> Verdict | None:
    if not found.bursts or not found.count(Fate.ANSWERED):
        return _verdict(found, Status.INCONCLUSIVE, "no burst was answered" if found.bursts else "no burst was asked")
    if found.history.cut_short is not None and found.count(Fate.OURS):
        return _verdict(found, Status.INCONCLUSIVE, f"a burst was cut short: {found.history.cut_short}")
    if not found.compared:
        return _verdict(found, Status.INCONCLUSIVE, "no answer after a burst could be compared with one before")
    if not found.count(Fate.REFUSED) and not any(burst.waited for burst in found.bursts):
        largest = max(burst.size for burst in found.bursts)
        reason = f"not exercised: {largest} requests at once were no overload; a larger --budget asks for more"
        return _verdict(found, Status.INCONCLUSIVE, reason)
    if any(burst.recovery_ns is None for burst in found.bursts):
        reason = "the server did not come back to its usual speed while it was asked again"
        return _verdict(found, Status.SUSPECT, reason)
    return None


def _sound(found: _Findings) -> Verdict:
    largest = max(burst.size for burst in found.bursts)
    refused = found.count(Fate.REFUSED)
    how = f"{refused} were refused clearly" if refused else "all waited, nothing was refused"
    reason = (
        f"up to {largest} at once: {found.count(Fate.ANSWERED)} were answered, {how}, none was lost; usual speed within"
        f" {_recovery_s(found):.1f} s, and {found.compared} answers afterwards as before"
    )
    return _verdict(found, Status.PASS, reason)


def _recovery_s(found: _Findings) -> float:
    return max((burst.recovery_ns or 0 for burst in found.bursts), default=0) / NS_PER_S


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
        eligible=sum(burst.size for burst in found.bursts),
        examined=found.count(Fate.ANSWERED) + found.count(Fate.REFUSED),
        violations=len(evidence),
        evidence=tuple(evidence[:SHOWN]),
        smallest_effect={"change after a burst": found.limit} if found.compared else {},
        follow_up=follow_up,
        details=_details(found),
    )


def _details(found: _Findings) -> dict[str, Json]:
    refusals = [each for burst in found.bursts for each in burst.fates.get(Fate.REFUSED, ())]
    told = [each.record.complete.error for each in refusals]
    return {
        "bursts": [burst.size for burst in found.bursts],
        "answered": found.count(Fate.ANSWERED),
        "refused": found.count(Fate.REFUSED),
        "lost": found.count(Fate.LOST),
        "refusals_with_retry_after": sum(each is not None and each.retry_after_s is not None for each in told),
        "refusal": told[0].message if told and told[0] is not None else None,
        "recovery_s": [None if each.recovery_ns is None else each.recovery_ns / NS_PER_S for each in found.bursts],
        "compared_after": found.compared,
        "cut_short": found.history.cut_short,
    }


def _lost_evidence(answer: Answer) -> Evidence:
    error = answer.record.complete.error
    words = "no error" if error is None else f"{error.kind.value}: {error.message}"
    invoke = answer.record.invoke
    return Evidence(request_ids=(invoke.request_id,), text=f"{invoke.key}: {words}")


def _leak_evidence(leak: Leak) -> Evidence:
    row = leak.row
    text = f"{row.arm}: {row.session} asked for key {row.key}, and was told {leak.codeword}, which is {leak.other}'s"
    return Evidence(request_ids=(row.request_id,), text=text, table={"text": row.text})


def _wrong_evidence(each: Distance) -> Evidence:
    rms = math.nan if each.rms is None else each.rms
    text = f"{each.row.session} after a burst: {rms:.2f} nats RMS from its nearest answer before"
    return Evidence(request_ids=(each.row.request_id, each.reference), text=text, table={"text": each.row.text})
