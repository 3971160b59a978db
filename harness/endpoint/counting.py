"""How many tokens each event of a stream carried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class EventFacts(NamedTuple):
    """What one event says about generated tokens.

    offset: of its first byte in the body. speaks: it carries text, reasoning or a piece of a tool call. silent: it
    carries an empty string where text would be, as vLLM sends for a token that ends inside a character. ids /
    positions: token ids and logprob positions in it; None if it has no such field. completion_tokens: of a usage object
    that came with it.
    """

    offset: int
    speaks: bool
    silent: bool
    ids: int | None = None
    positions: int | None = None
    completion_tokens: int | None = None


class Counted(NamedTuple):
    """Offsets of the events that carried tokens, and the tokens of each; tokens None means one each or not known."""

    offsets: tuple[int, ...]
    tokens: tuple[int, ...] | None


def count_tokens_of_events(facts: Sequence[EventFacts], total: int | None) -> Counted:
    """Which events carried tokens and how many, from the best evidence that agrees with `total`.

    Evidence, best first: token ids, usage in every event, logprob positions. Without any, each event that speaks
    counts as one token, and the silent ones too if the server's `total` is met exactly that way.
    """
    for counts in (_by_ids(facts), _by_running_usage(facts), _by_positions(facts)):
        if counts is not None and (total is None or sum(counts) == total):
            pairs = [(fact.offset, count) for fact, count in zip(facts, counts, strict=True) if count > 0]
            tokens = tuple(count for _, count in pairs)
            return Counted(tuple(offset for offset, _ in pairs), tokens if any(n != 1 for n in tokens) else None)
    speaking = sum(fact.speaks for fact in facts)
    with_silent = speaking + sum(fact.silent for fact in facts) == total
    return Counted(tuple(fact.offset for fact in facts if fact.speaks or (with_silent and fact.silent)), None)


def _by_ids(facts: Sequence[EventFacts]) -> list[int] | None:
    if not any(fact.ids for fact in facts) or any(fact.speaks and fact.ids is None for fact in facts):
        return None
    return [fact.ids if fact.ids is not None else 0 for fact in facts]


def _by_running_usage(facts: Sequence[EventFacts]) -> list[int] | None:
    if not any(fact.speaks for fact in facts):
        return None
    if any(fact.speaks and fact.completion_tokens is None for fact in facts):
        return None
    counts: list[int] = []
    before = 0
    for fact in facts:
        now = fact.completion_tokens if fact.completion_tokens is not None else before
        if now < before:
            return None
        counts.append(now - before)
        before = now
    return counts


def _by_positions(facts: Sequence[EventFacts]) -> list[int] | None:
    if not any(fact.positions for fact in facts) or any(fact.speaks and fact.positions is None for fact in facts):
        return None
    return [fact.positions if fact.positions is not None else 0 for fact in facts]
