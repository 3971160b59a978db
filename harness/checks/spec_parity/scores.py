"""Emitted tokens against prefill alone: a difference of differences.

Decoding and prefill are different algorithms and differ a little on a healthy server. Positions that no rollback can
have touched show how much; only what later positions differ by beyond that is held against drafting.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from harness.checks.history import Answer, CheckHistory
from harness.records import Outcome, TokenLogprob
from harness.stats.gaps import comparable_positions, squared_gap
from workloads.plan import Json
from workloads.spec_parity import ANSWER, CLEAN_POSITIONS, RESCORED

# Nats added to both sides of a ratio, so that noise on noise is no finding; scores are kept within bounds.
FLOOR = 0.02
CLIP = (-3.0, 5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """One emitted token, decoded and rescored.

    gap: mean squared difference of the two tables in nats², None where the answer has no table. preference: nats by
    which prefill prefers its own token to the emitted one, 0 where it agrees or cannot tell.
    """

    request_id: str
    position: int
    clean: bool
    gap: float | None
    preference: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One answer with its rescored positions."""

    name: str
    content: str
    round_index: int
    request_id: str
    positions: tuple[Position, ...]

    def gap(self, *, clean: bool) -> float | None:
        """Mean squared gap over the clean positions, or over the others; None without any."""
        gaps = [each.gap for each in self.positions if each.clean is clean and each.gap is not None]
        return sum(gaps) / len(gaps) if gaps else None

    def preference(self, *, clean: bool) -> float:
        """The largest preference of prefill for another token than was emitted."""
        return max((each.preference for each in self.positions if each.clean is clean), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescoring:
    """scored: answers with at least one position of either kind. misaligned: tokens whose prompt was not as long as
    the answer up to there: the server reads ids otherwise than it writes them."""

    scored: tuple[Scored, ...]
    misaligned: int


def rescoring(history: CheckHistory) -> Rescoring:
    """Join every answer with what prefill says of its tokens."""
    answers = [answer for answer in history.answers if answer.record.complete.outcome is Outcome.OK]
    by_name: dict[str, list[Answer]] = {}
    for answer in answers:
        if answer.record.invoke.labels.get("kind") == RESCORED:
            by_name.setdefault(str(answer.record.invoke.session), []).append(answer)
    found, misaligned = [], 0
    for answer in answers:
        if answer.record.invoke.labels.get("kind") != ANSWER:
            continue
        again = by_name.get(str(answer.record.invoke.session), [])
        aligned = [each for each in again if _aligned(answer, each)]
        misaligned += len(again) - len(aligned)
        scored = _scored(answer, aligned)
        if {each.clean for each in scored.positions} == {True, False}:
            found.append(scored)
    return Rescoring(scored=tuple(found), misaligned=misaligned)


def between_servers(history: CheckHistory) -> tuple[Scored, ...]:
    """The same prompts answered here and by the other server, as far as both texts are the same."""
    elsewhere = {
        answer.record.invoke.key: answer
        for answer in history.other
        if answer.record.invoke.labels.get("kind") == ANSWER and answer.record.complete.outcome is Outcome.OK
    }
    found = []
    for answer in history.answers:
        other = elsewhere.get(answer.record.invoke.key)
        if other is not None and answer.record.complete.outcome is Outcome.OK and answer.logprobs and other.logprobs:
            scored = replace(_scored(answer, ()), positions=tuple(_side_by_side(answer, other)))
            if {each.clean for each in scored.positions} == {True, False}:
                found.append(scored)
    return tuple(found)


def _side_by_side(answer: Answer, other: Answer) -> Iterator[Position]:
    mine, theirs = answer.logprobs, other.logprobs
    assert mine is not None and theirs is not None, "only answers with tables are compared"
    for index in range(comparable_positions(mine, theirs, min(len(mine), len(theirs)))):
        yield Position(
            request_id=other.record.invoke.request_id,
            position=index,
            clean=index in CLEAN_POSITIONS,
            gap=squared_gap(mine[index], theirs[index]),
            preference=_preference(theirs[index], mine[index].token),
        )


def _position_of(answer: Answer) -> int:
    position = answer.record.invoke.labels.get("position")
    return position if isinstance(position, int) else -1


def _aligned(answer: Answer, again: Answer) -> bool:
    first, second = answer.record.complete.usage, again.record.complete.usage
    if first is None or second is None or first.prompt_tokens is None or second.prompt_tokens is None:
        return _position_of(again) >= 0
    return second.prompt_tokens == first.prompt_tokens + _position_of(again)


def _scored(answer: Answer, again: Sequence[Answer]) -> Scored:
    invoke = answer.record.invoke
    tail = invoke.cell.rpartition("-r")[2]
    return Scored(
        name=str(invoke.session),
        content=str(invoke.labels.get("content")),
        round_index=int(tail) if tail.isdigit() else 0,
        request_id=invoke.request_id,
        positions=tuple(_positions(answer, again)),
    )


def _positions(answer: Answer, again: Sequence[Answer]) -> Iterator[Position]:
    emitted = answer.logprobs if answer.logprobs is not None else ()
    for each in again:
        index = _position_of(each)
        if not each.logprobs or index >= len(emitted):
            continue
        decoded, prefilled = emitted[index], each.logprobs[0]
        yield Position(
            request_id=each.record.invoke.request_id,
            position=index,
            clean=each.record.invoke.labels.get("clean") is True,
            gap=squared_gap(decoded, prefilled),
            preference=_preference(prefilled, decoded.token),
        )


def _preference(prefilled: TokenLogprob, emitted: str) -> float:
    if prefilled.token == emitted or prefilled.logprob is None or not prefilled.top:
        return 0.0
    listed: Mapping[str, float] = dict(prefilled.top)
    return max(0.0, prefilled.logprob - listed.get(emitted, min(listed.values())))


def excess_scores(scored: Sequence[Scored]) -> list[tuple[Scored, float]]:
    """S = ln[(E + f²) / (N + f²)] of each answer: E over its later positions, N its own clean ones or the median's."""
    known = [
        (each, later, clean)
        for each in scored
        if (later := each.gap(clean=False)) is not None and (clean := each.gap(clean=True)) is not None
    ]
    if not known:
        return []
    usual = median(clean for _, _, clean in known)
    return [(each, _score(later, max(clean, usual))) for each, later, clean in known]


def _score(later: float, clean: float) -> float:
    return min(max(math.log((later + FLOOR**2) / (clean + FLOOR**2)), CLIP[0]), CLIP[1])


def table_of(scored: Scored) -> dict[str, Json]:
    """The numbers of one answer, position by position."""
    return {
        "content": scored.content,
        "position": [each.position for each in scored.positions],
        "rms_nats": [None if each.gap is None else round(math.sqrt(each.gap), 4) for each in scored.positions],
        "prefill_prefers_by_nats": [round(each.preference, 3) for each in scored.positions],
    }
