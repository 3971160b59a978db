"""Emitted tokens against prefill alone: a difference of differences.

Decoding and prefill are different algorithms and differ a little on a healthy server. Positions that no rollback can
have touched show how much; only what later positions differ by beyond that is held against drafting.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from harness.checks.history import Answer, CheckHistory
from harness.records import Outcome, TokenLogprob
from harness.stats.gaps import comparable_positions, squared_gap
from workloads.plan import Json
from workloads.spec_parity import ANSWER, CLEAN_POSITIONS, OPENING, RESCORED

# Nats added to both sides of a ratio, so that noise on noise is no finding; scores are kept within bounds.
FLOOR = 0.02
CLIP = (-3.0, 5.0)
# A table that is off by one nat RMS makes two of its tokens change places over a gap of about so many nats: 2.1 to 2.6
# on a real bfloat16 hybrid.
REACH = 2.5
# Nats RMS from which a single answer is loud; and the share of the way to strangers' tables from which it is foreign.
LOUD, FOREIGN = 0.3, 0.7
FEWEST_LISTED = 5
SEEN_MORE = 2


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
    listed: bool | None = None

    @property
    def reach(self) -> float:
        """Nats over which what parts the two tables here could make two tokens change places; 0 without tables."""
        return 0.0 if self.gap is None else REACH * math.sqrt(self.gap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One answer with its rescored positions.

    stranger: mean squared gap between its later tables and what prefill gives after other texts; None where unknown.
    """

    name: str
    content: str
    round_index: int
    request_id: str
    positions: tuple[Position, ...]
    stranger: float | None = None

    def gap(self, *, clean: bool) -> float | None:
        """Mean squared gap over the clean positions, or over the others; None without any."""
        gaps = [each.gap for each in self.positions if each.clean is clean and each.gap is not None]
        return sum(gaps) / len(gaps) if gaps else None

    def noise(self) -> float | None:
        """The largest squared gap of a clean position; None without any.

        Position 0 comes out of a prefill on both sides and is often the same to the bit: a mean would halve what the
        first decoded position shows.
        """
        return max((each.gap for each in self.positions if each.clean and each.gap is not None), default=None)

    def preference(self, *, clean: bool) -> float:
        """The largest preference of prefill for another token than was emitted."""
        return max((each.preference for each in self.positions if each.clean is clean), default=0.0)

    @property
    def foreign(self) -> bool:
        """Whether what was decoded after the first token has no more to do with its text than with any other.

        Told by tables that are loudly off, and as far from prefill's as from those of other texts; or, where decoding
        gives none, by tokens of which prefill does not name half, though it names the first. The first decoded position
        counts too: a step that is wrong from its first row on leaves no clean one.
        """
        decoded = [each for each in self.positions if each.position > 0]
        gaps = [each.gap for each in decoded if each.gap is not None]
        if 2 * len(gaps) > len(decoded):
            own = fmean(gaps)
            return self.stranger is not None and own > max(LOUD**2, FOREIGN**2 * self.stranger)
        first = any(each.listed is True for each in self.positions if each.position == 0)
        return first and 2 * sum(each.listed is False for each in decoded) > len(decoded)

    def reach(self, *, clean: bool) -> float:
        """The largest reach of the clean positions, or of the others."""
        return max((each.reach for each in self.positions if each.clean is clean), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescoring:
    """scored: answers with at least one position of either kind. openings: answers of clean positions alone.
    misaligned: tokens whose prompt was not as long as the answer up to there, for the server reads ids otherwise than
    it writes them, or behind a place where it may have written several tokens as one."""

    scored: tuple[Scored, ...]
    openings: tuple[Scored, ...]
    misaligned: int


def rescoring(history: CheckHistory) -> Rescoring:
    """Join every answer with what prefill says of its tokens."""
    kinds: dict[Json, list[Answer]] = {ANSWER: [], OPENING: [], RESCORED: []}
    for answer in history.answers:
        if answer.record.complete.outcome is Outcome.OK:
            kinds.setdefault(answer.record.invoke.labels.get("kind"), []).append(answer)
    by_name: dict[str, list[Answer]] = {}
    for answer in kinds[RESCORED]:
        by_name.setdefault(_name(answer), []).append(answer)

    def aligned_with(answer: Answer) -> list[Answer]:
        known = _one_by_one(answer)
        again = by_name.get(_name(answer), [])
        return [each for each in again if _position_of(each) < known and _aligned(answer, each)]

    asked = kinds[ANSWER]
    aligned = [aligned_with(answer) for answer in asked]
    found = []
    for index, (answer, again) in enumerate(zip(asked, aligned, strict=True)):
        scored = replace(_scored(answer, again), stranger=_stranger(answer, again, aligned[index - 1]))
        if {each.clean for each in scored.positions} == {True, False}:
            found.append(scored)
    rescored = sum(len(by_name.get(_name(answer), [])) for answer in asked)
    return Rescoring(
        scored=tuple(found),
        openings=tuple(_scored(answer, aligned_with(answer)) for answer in kinds[OPENING]),
        misaligned=rescored - sum(len(again) for again in aligned),
    )


def _name(answer: Answer) -> str:
    return str(answer.record.invoke.session)


def _stranger(answer: Answer, own: Sequence[Answer], others: Sequence[Answer]) -> float | None:
    """How far an answer's tables are from prefill's at its own other positions and at those of another answer, which
    ever are further: an answer that repeats itself is like itself everywhere."""
    decoded = [
        (position, answer.logprobs[position])
        for each in own
        if answer.logprobs is not None and 0 < (position := _position_of(each)) < len(answer.logprobs)
    ]
    means = []
    for rescored in (own, others):
        apart = [
            gap
            for position, table in decoded
            for each in rescored
            if each.logprobs and (rescored is others or _position_of(each) not in (0, position))
            if (gap := squared_gap(table, each.logprobs[0])) is not None
        ]
        means += [fmean(apart)] if apart else []
    return max(means, default=None)


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


def _one_by_one(answer: Answer) -> int:
    """How many entries from the first on surely are one token each: all where there are as many as tokens, else those
    before the first that is no plain text. llama.cpp writes the tokens of a broken character as one, so that what
    follows is scored behind ids that are not the answer's."""
    entries, usage = answer.logprobs or (), answer.record.complete.usage
    tokens = None if usage is None else usage.completion_tokens
    if tokens is None or tokens <= len(entries):
        return len(entries)
    odd = (number for number, each in enumerate(entries) if not each.token.isascii() or each.token == "")
    return next(odd, len(entries))


def _aligned(answer: Answer, again: Answer) -> bool:
    first, second = answer.record.complete.usage, again.record.complete.usage
    if first is None or second is None or first.prompt_tokens is None or second.prompt_tokens is None:
        return _position_of(again) >= 0
    return second.prompt_tokens == first.prompt_tokens + _position_of(again)


def _scored(answer: Answer, again: Sequence[Answer]) -> Scored:
    invoke = answer.record.invoke
    tail = invoke.cell.rpartition("-r")[2]
    return Scored(
        name=_name(answer),
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
            listed=_listed(prefilled, decoded.token),
        )


def _listed(prefilled: TokenLogprob, emitted: str) -> bool | None:
    return None if len(prefilled.top) < FEWEST_LISTED else emitted in dict(prefilled.top)


def _preference(prefilled: TokenLogprob, emitted: str) -> float:
    if prefilled.token == emitted or prefilled.logprob is None or not prefilled.top:
        return 0.0
    listed: Mapping[str, float] = dict(prefilled.top)
    return max(0.0, prefilled.logprob - listed.get(emitted, min(listed.values())))


def usual_noise(scored: Sequence[Scored]) -> float | None:
    """Mean over answers of the largest squared gap of a clean position, the largest of all counted twice more; None
    without any.

    A mean, not a median: where noise comes in few large steps (experts chosen otherwise), most clean positions show
    none, and by bad luck nearly all.
    """
    known = [noise for each in scored if (noise := each.noise()) is not None]
    return (sum(known) + SEEN_MORE * max(known)) / len(known) if known else None


def excess_scores(scored: Sequence[Scored], openings: Sequence[Scored] = ()) -> list[tuple[Scored, float]]:
    """S = ln[(E + f²) / (N + f²)] of each answer: E over its later positions, N its own clean noise or the usual."""
    usual = usual_noise([*scored, *openings])
    if usual is None:
        return []
    return [
        (each, _score(later, max(clean, usual)))
        for each in scored
        if (later := each.gap(clean=False)) is not None and (clean := each.noise()) is not None
    ]


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
