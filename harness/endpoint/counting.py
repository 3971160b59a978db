"""How many tokens each event of a stream carried."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, repeat
from operator import or_
from typing import NamedTuple


class EventFacts:
    """What the events of a stream say about generated tokens, a column for each fact: a row of them costs more to make.

    offsets: of their first bytes in the body. speaks: it carries text, reasoning or a piece of a tool call. silent: it
    carries an empty string where text would be, as vLLM sends for a token that ends inside a character. ids /
    positions: token ids and logprob positions in it; None if it has no such field. completion_tokens: of a usage object
    that came with it.
    """

    __slots__ = ("completion_tokens", "ids", "offsets", "positions", "silent", "speaks")

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.speaks: list[bool] = []
        self.silent: list[bool] = []
        self.ids: list[int | None] = []
        self.positions: list[int | None] = []
        self.completion_tokens: list[int | None] = []

    def add(
        self,
        offset: int,
        *,
        speaks: bool,
        silent: bool = False,
        ids: int | None = None,
        positions: int | None = None,
        completion_tokens: int | None = None,
    ) -> None:
        """Note one event."""
        self.offsets.append(offset)
        self.speaks.append(speaks)
        self.silent.append(silent)
        self.ids.append(ids)
        self.positions.append(positions)
        self.completion_tokens.append(completion_tokens)

    def add_texts(self, offsets: Sequence[int]) -> None:
        """Note events that carry text and say nothing else."""
        self.offsets.extend(offsets)
        self.speaks.extend(repeat(True, len(offsets)))
        self.silent.extend(repeat(False, len(offsets)))
        for column in (self.ids, self.positions, self.completion_tokens):
            column.extend(repeat(None, len(offsets)))

    def last_is_only_text(self) -> bool:
        """Whether the last event carries text and says nothing else."""
        others = (self.ids[-1], self.positions[-1], self.completion_tokens[-1])
        return self.speaks[-1] and not self.silent[-1] and others == (None, None, None)


class Counted(NamedTuple):
    """Offsets of the events that carried tokens, and the tokens of each; tokens None means one each or not known."""

    offsets: tuple[int, ...]
    tokens: tuple[int, ...] | None


def count_tokens_of_events(facts: EventFacts, total: int | None) -> Counted:
    """Which events carried tokens and how many, from the best evidence that agrees with `total`.

    Evidence, best first: token ids, usage in every event, logprob positions. Without any, each event that speaks
    counts as one token, and the silent ones too if the server's `total` is met exactly that way.
    """
    speaks = facts.speaks
    running = _by_running_usage(facts.completion_tokens, speaks)
    for counts in (_counted(facts.ids, speaks), running, _counted(facts.positions, speaks)):
        if counts is not None and (total is None or sum(counts) == total):
            tokens = tuple(count for count in counts if count > 0)
            offsets = tuple(offset for offset, count in zip(facts.offsets, counts, strict=True) if count > 0)
            return Counted(offsets, tokens if any(n != 1 for n in tokens) else None)
    with_silent = sum(speaks) + sum(facts.silent) == total
    carried = map(or_, speaks, facts.silent) if with_silent else speaks
    return Counted(tuple(compress(facts.offsets, carried)), None)


def _counted(counts: Sequence[int | None], speaks: Sequence[bool]) -> list[int] | None:
    """Tokens of each event by a field that tells them; None unless every event that speaks has it."""
    if not any(counts) or None in compress(counts, speaks):
        return None
    return [count if count is not None else 0 for count in counts]


def _by_running_usage(totals: Sequence[int | None], speaks: Sequence[bool]) -> list[int] | None:
    if not any(speaks) or None in compress(totals, speaks):
        return None
    counts: list[int] = []
    before = 0
    for total in totals:
        now = total if total is not None else before
        if now < before:
            return None
        counts.append(now - before)
        before = now
    return counts
