"""What became of every request of the bursts, and how the server did afterwards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from harness.checks.history import Answer, CheckHistory
from harness.records import Complete, ErrorKind, Outcome
from workloads.overload import AFTER, BURST, SOLO

REFUSING = (429, 503)
_SAYS_FULL = re.compile(r"429|503|queue|busy|overload|capacity|unavailable|rate limit", re.IGNORECASE)
_OURS = (ErrorKind.CANCELLED, ErrorKind.HARNESS_DIED)
# Three times the wait of one alone is a queue; what came back to twice the usual time, or near it, is normal again.
WAITED = 3.0
NORMAL = 2.0
SLACK_NS = 100_000_000
NS_PER_S = 1_000_000_000


class Fate(StrEnum):
    """ANSWERED; REFUSED with a clear word; LOST: neither; OURS: we gave it up ourselves."""

    ANSWERED = "answered"
    REFUSED = "refused"
    LOST = "lost"
    OURS = "given up by the harness"


def fate_of(complete: Complete) -> Fate:
    """What became of one request.

    A clear refusal is HTTP 429 or 503, or an error event of a stream that says the same.
    """
    if complete.outcome is Outcome.OK:
        return Fate.ANSWERED
    error = complete.error
    assert error is not None
    if error.kind in _OURS:
        return Fate.OURS
    if error.http_status in REFUSING or complete.http_status in REFUSING:
        return Fate.REFUSED
    if error.kind is ErrorKind.STREAM_ERROR and complete.first_token_ns is None and _SAYS_FULL.search(error.message):
        return Fate.REFUSED
    return Fate.LOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """One burst: its answers by fate. recovery_ns: from its last end to the end of the first answer at normal speed,
    None if none came. waited: the median answered one waited several times as long as one alone, None if not known.
    """

    size: int
    cycle: int
    round_index: int
    fates: dict[Fate, tuple[Answer, ...]]
    recovery_ns: int | None
    waited: bool | None

    def count(self, fate: Fate) -> int:
        return len(self.fates.get(fate, ()))


def bursts_of(history: CheckHistory) -> list[Burst]:
    """Every burst in its order."""
    found: dict[tuple[int, int], list[Answer]] = {}
    for answer in history.answers:
        invoke = answer.record.invoke
        if invoke.arm == BURST:
            found.setdefault((round_of(answer), _cycle(answer)), []).append(answer)
    usual_ns = _usual_ns(history)
    return [_burst(history, answers, key, usual_ns) for key, answers in found.items()]


def round_of(answer: Answer) -> int:
    """The round that a request belongs to."""
    return int(answer.record.invoke.cell.rpartition("-r")[2])


def _cycle(answer: Answer) -> int:
    value = answer.record.invoke.labels.get("cycle")
    return value if isinstance(value, int) else 0


def _usual_ns(history: CheckHistory) -> float | None:
    times = [time for answer in history.answers if answer.record.invoke.arm == SOLO and (time := _ttft(answer))]
    return median(times) if times else None


def _ttft(answer: Answer) -> int | None:
    done = answer.record.complete
    if done.outcome is not Outcome.OK or done.first_token_ns is None or done.sent_ns is None:
        return None
    return done.first_token_ns - done.sent_ns


def _burst(history: CheckHistory, answers: Sequence[Answer], key: tuple[int, int], usual_ns: float | None) -> Burst:
    fates: dict[Fate, list[Answer]] = {}
    for answer in answers:
        fates.setdefault(fate_of(answer.record.complete), []).append(answer)
    waits = [time for answer in answers if (time := _ttft(answer)) is not None]
    return Burst(
        size=len(answers),
        cycle=key[1],
        round_index=key[0],
        fates={fate: tuple(group) for fate, group in fates.items()},
        recovery_ns=_recovery_ns(history, answers, key, usual_ns),
        waited=None if usual_ns is None or not waits else median(waits) > WAITED * usual_ns,
    )


def _recovery_ns(
    history: CheckHistory, answers: Sequence[Answer], key: tuple[int, int], usual_ns: float | None
) -> int | None:
    ends = [each.record.complete.end_ns for each in answers if each.record.complete.end_ns is not None]
    if usual_ns is None or not ends:
        return None
    for answer in history.answers:
        invoke, end_ns, time = answer.record.invoke, answer.record.complete.end_ns, _ttft(answer)
        if invoke.arm != AFTER or (round_of(answer), _cycle(answer)) != key or time is None or end_ns is None:
            continue
        if time <= NORMAL * usual_ns + SLACK_NS:
            return max(0, end_ns - max(ends))
    return None
