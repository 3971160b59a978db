"""The history of the check as rows, and how far each answer is from that of the same request asked alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.checks.degenerate import CERTAIN, garbage
from harness.checks.history import Answer, CheckHistory
from harness.records import Outcome, TokenLogprob
from harness.stats.gaps import POSITIONS, first_flip, mean_gap, squared_gaps
from workloads.plan import Json

NO_NUMBER = "a token without a log-probability, where other answers have one"
LONGEST = 256
ALONE = frozenset({"solo", "resent-alone"})
"""Arms in which nobody else is served and nobody of note was just before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One answered request of a session.

    cycle: as the plan numbers them, after the name of the round. size: how many were begun with it. key, codeword: of
    the fact its prompt states, None if it states none. broken: why no sound model gives such an answer.
    """

    request_id: str
    session: str
    arm: str
    cycle: str
    size: int
    text: str
    logprobs: tuple[TokenLogprob, ...]
    key: str | None = None
    codeword: str | None = None
    broken: str | None = None

    @property
    def alone(self) -> bool:
        """Whether it belongs to the arm that the others are held against."""
        return self.arm in ALONE

    @property
    def own(self) -> bool:
        """Whether the answer has the session's own codeword."""
        return self.codeword is not None and self.codeword in self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """How far one answer is from the nearest answer of the same request asked alone.

    rms: nats, the largest over stretches of POSITIONS whose context is the same. flip: nats by which both sides prefer
    the token they chose where they first differ, 0.0 if they do not. Both None without log-probabilities.
    """

    row: Row
    reference: str
    rms: float | None
    flip: float | None


def rows_of(history: CheckHistory) -> list[Row]:
    """Every answered request of a session, in the order in which they were begun."""
    answered = [each for each in history.answers if each.record.complete.outcome is Outcome.OK]
    return _marked([_row(answer) for answer in answered if answer.record.invoke.session is not None])


def _marked(rows: Sequence[Row]) -> list[Row]:
    """The rows, with those broken whose tokens have no log-probability where those of others have one."""
    if not any(row.logprobs and not _nulls(row) for row in rows):
        return list(rows)
    return [replace(row, broken=NO_NUMBER) if row.broken is None and _nulls(row) else row for row in rows]


def _nulls(row: Row) -> bool:
    return any(position.logprob is None for position in row.logprobs)


def _row(answer: Answer) -> Row:
    invoke, done = answer.record.invoke, answer.record.complete
    found = garbage(answer)
    return Row(
        request_id=invoke.request_id,
        session=invoke.session if invoke.session is not None else "",
        arm=invoke.arm if invoke.arm is not None else "",
        cycle=f"{invoke.cell}/{_whole(invoke.labels.get('cycle'))}",
        size=_whole(invoke.labels.get("size")),
        text=done.text if done.text is not None else "",
        logprobs=_whole_entries(answer),
        key=_word(invoke.labels.get("key")),
        codeword=_word(invoke.labels.get("codeword")),
        broken=found.value if found is not None and found in CERTAIN else None,
    )


def _whole_entries(answer: Answer) -> tuple[TokenLogprob, ...]:
    """Its log-probabilities, without the last one where entries are missing before it.

    llama.cpp merges tokens until they are characters, and beside drafts lists the first token and the last alone: what
    comes last then stands at another place in an answer with another limit of tokens.
    """
    found = answer.logprobs if answer.logprobs is not None else ()
    usage = answer.record.complete.usage
    tokens = usage.completion_tokens if usage is not None else None
    merged = tokens is not None and len(found) < tokens - 1
    return found[:-1] if merged and len(found) > 1 else found


def _whole(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _word(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def distances(rows: Sequence[Row]) -> list[Distance]:
    """Of every row that has another one asked alone; a row asked alone is held against the others."""
    alone: dict[str, list[Row]] = {}
    for row in rows:
        if row.alone:
            alone.setdefault(row.session, []).append(row)
    found = []
    for row in rows:
        others = [other for other in alone.get(row.session, []) if other is not row]
        if others:
            found.append(_nearest(row, others))
    return found


def _nearest(row: Row, others: Iterable[Row]) -> Distance:
    each = [_distance(row, other) for other in others]
    return min(each, key=lambda distance: (_or_infinite(distance.flip), _or_infinite(distance.rms)))


def _or_infinite(value: float | None) -> float:
    return math.inf if value is None else value


def _distance(row: Row, other: Row) -> Distance:
    gaps = squared_gaps(row.logprobs, other.logprobs, LONGEST)
    parts = [mean_gap(gaps[start : start + POSITIONS]) for start in range(0, len(gaps), POSITIONS)]
    gap = max((part for part in parts if part is not None), default=None)
    flip = first_flip(row.logprobs, other.logprobs, LONGEST)
    known = gap is not None
    return Distance(
        row=row,
        reference=other.request_id,
        rms=math.sqrt(gap) if gap is not None else None,
        flip=(0.0 if flip is None else flip.gap) if known else None,
    )
