"""How far apart two answers to one prompt are, from their tables of likeliest tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.records import TokenLogprob

TOP = 5
POSITIONS = 16
# How bytes that are no character by themselves are written, one like the other.
BROKEN_CHARACTER = "\ufffd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """Two answers that chose different tokens after the same text.

    gap: nats by which each answer prefers its own token, the smaller of the two; a near-tie has a small gap.
    """

    position: int
    gap: float


def stands_for_many(token: str) -> bool:
    """Whether a token as it is written may be one of many: part of a character, or nothing that shows.

    In a table named by text one of them stands for all.
    """
    return token == "" or BROKEN_CHARACTER in token


def squared_gap(one: TokenLogprob, other: TokenLogprob, top: int = TOP) -> float | None:
    """Mean over the likeliest `top` tokens of either side of the squared difference of log-probabilities, in nats².

    A token that one side does not list lies at or below that side's last value, so only the part of the difference that
    is certain counts. None if a side lists nothing.
    """
    if not one.top or not other.top:
        return None
    mine, theirs = dict(one.top), dict(other.top)
    wanted = dict.fromkeys([token for token, _ in (*one.top[:top], *other.top[:top])])
    floors = min(mine.values()), min(theirs.values())
    gaps = [_difference(mine.get(token), theirs.get(token), *floors) for token in wanted]
    return sum(gap * gap for gap in gaps) / len(gaps)


def _difference(mine: float | None, theirs: float | None, my_floor: float, their_floor: float) -> float:
    if mine is None:
        assert theirs is not None, "a wanted token is listed by at least one side"
        return max(0.0, theirs - my_floor)
    if theirs is None:
        return max(0.0, mine - their_floor)
    return mine - theirs


def comparable_positions(one: Sequence[TokenLogprob], other: Sequence[TokenLogprob], limit: int = POSITIONS) -> int:
    """Positions whose context is the same in both answers: up to and including the first that differs."""
    shared = min(len(one), len(other), limit)
    for position in range(shared):
        if one[position].token != other[position].token:
            return position + 1
    return shared


def squared_gaps(
    one: Sequence[TokenLogprob], other: Sequence[TokenLogprob], limit: int = POSITIONS
) -> tuple[float, ...]:
    """`squared_gap` of each comparable position in turn; empty when a position lists no alternatives."""
    found = [squared_gap(one[j], other[j]) for j in range(comparable_positions(one, other, limit))]
    return tuple(gap for gap in found if gap is not None) if None not in found else ()


def mean_gap(gaps: Sequence[float]) -> float | None:
    """Mean squared gap in nats²; None for no positions."""
    return sum(gaps) / len(gaps) if gaps else None


def first_flip(one: Sequence[TokenLogprob], other: Sequence[TokenLogprob], limit: int = POSITIONS) -> Flip | None:
    """The first position where the chosen tokens differ, None if they do not."""
    last = comparable_positions(one, other, limit) - 1
    if last < 0 or one[last].token == other[last].token:
        return None
    gaps = (_preference(one[last], other[last].token), _preference(other[last], one[last].token))
    return Flip(position=last, gap=min(gaps))


def _preference(position: TokenLogprob, rival: str) -> float:
    """Nats by which a position prefers its chosen token to `rival`, at least; 0 if it says nothing."""
    if position.logprob is None or not position.top:
        return 0.0
    listed = dict(position.top)
    return max(0.0, position.logprob - listed.get(rival, min(listed.values())))
