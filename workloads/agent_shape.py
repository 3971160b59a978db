"""The sizes of whole agent sessions before any text is written: calls, lengths, pauses, compactions."""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

from workloads.agent_profile import AgentProfile
from workloads.plan import Json
from workloads.text import seeded, spread_fraction

# Recorded sessions that begin with a long context are short ones: their ends would lie far too high otherwise.
CALLS_TO_FIRST_INPUT_CORRELATION = -0.7
SIMULATED_SESSIONS = 2_000
# What one compaction takes away at most, as a share of the context.
DEEPEST_CUT = 0.85
# Sessions that clear old tool results before they compact, the share of calls that do, and what one takes away at most.
CLEARING_SESSIONS = 0.4
CLEARING_CALLS = 0.02
CLEARED_SHARE = 0.15
SHALLOW_SHARE = 0.2
TYPICAL_CUT_TOKENS = 120_000
_PLASTIC_STEPS = (0.7548776662466927, 0.5698402909980532)
_EDGE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request of a session.

    kind: what it brings, a "user" text or a "tool" result. new_tokens: beside the answer before it; below zero where
    that answer was not sent back in full. prefix_tokens: leading tokens that were in the previous request as well, None
    for the first. think_s: pause before it. compacted: the context was replaced by a summary. cleared: old tool
    results were taken out of it.
    """

    kind: str
    input_tokens: int
    new_tokens: int
    output_tokens: int
    prefix_tokens: int | None
    think_s: float
    compacted: bool = False
    cleared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionShape:
    """A session's calls in order, and the tokens of its tool definitions and system prompt."""

    tools_tokens: int
    system_tokens: int
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A session before compaction; `news` of the first call is its whole input."""

    first_tokens: int
    kinds: tuple[str, ...]
    outputs: tuple[int, ...]
    news: tuple[int, ...]

    @property
    def end_tokens(self) -> int:
        return self.first_tokens + sum(self.news[1:]) + sum(self.outputs[:-1])


def whole_session(profile: AgentProfile, seed: Json, index: int) -> SessionShape:
    """Session `index` of a population, from its first call to its last.

    The number of calls, the first and the last input have the profile's distributions, evenly covered by the sessions
    from 0 up. What a session grows beyond its last input is taken away on the way, by clearing old tool results and by
    compactions.
    """
    rng = seeded(seed, "shape", index)
    users_rank = spread_fraction(index, seeded(seed, "user texts").random())
    draft = _draft(profile, rng, *_even_ranks(seed, index), users_rank)
    tools, system = (
        round(table.at(rng.random())) for table in (profile.tool_definition_tokens, profile.system_prompt_tokens)
    )
    shared = min(tools + system, draft.first_tokens - 1)
    ends = _simulated_ends(profile)
    rank = (bisect_left(ends, draft.end_tokens) + rng.random()) / (len(ends) + 1)
    surplus = draft.end_tokens - max(round(profile.last_input_tokens.at(rank)), shared + 1)
    clearings = _clearings(draft, surplus, shared, rng) if rng.random() < CLEARING_SESSIONS else {}
    left = surplus - sum(clearings.values())
    cuts = _cuts(draft, clearings, left, shared, rng) if left > 0 else clearings
    calls = _calls(profile, draft, cuts, shared, rng)
    return SessionShape(tools_tokens=tools, system_tokens=system, calls=calls)


def step_kinds(profile: AgentProfile, rng: random.Random) -> Iterator[str]:
    """Without end: a "user" step, then the "tool" steps of its turn."""
    while True:
        yield "user"
        for _ in range(round(profile.steps_per_user_turn.at(rng.random())) - 1):
            yield "tool"


def new_tokens(
    profile: AgentProfile, kind: str, answer_tokens: int, rng: random.Random, rank: float | None = None
) -> int:
    """What a step adds beside the answer before it, which may not be sent back in full; rank None: drawn."""
    if rng.random() < profile.silent_share(kind):
        return -round(answer_tokens * rng.random())
    return max(1, round(profile.new_tokens(kind).at(rng.random() if rank is None else rank)))


def _even_ranks(seed: Json, index: int) -> tuple[float, float]:
    """Point `index` of a sequence that fills the unit square evenly (additive recurrence of the plastic number)."""
    offsets = seeded(seed, "ranks")
    return tuple(math.fmod(offsets.random() + (index + 1) * step, 1.0) for step in _PLASTIC_STEPS)  # type: ignore[return-value]


def _draft(
    profile: AgentProfile, rng: random.Random, calls_rank: float, first_rank: float, users_rank: float
) -> _Draft:
    """Ranks in 0 to 1; that of the first input is correlated with that of the calls by a Gaussian copula.

    users_rank: where the even ranks of the session's user texts begin; there are too few texts to leave it to chance.
    """
    normal = NormalDist()
    one, two = (normal.inv_cdf(min(1 - _EDGE, max(_EDGE, rank))) for rank in (calls_rank, first_rank))
    rho = CALLS_TO_FIRST_INPUT_CORRELATION
    calls = max(1, round(profile.calls_per_session.at(calls_rank)))
    first = max(2, round(profile.first_input_tokens.at(normal.cdf(rho * one + math.sqrt(1 - rho * rho) * two))))
    steps = step_kinds(profile, rng)
    kinds = tuple(next(steps) for _ in range(calls + 1))
    outputs = tuple(max(1, round(profile.output_tokens(kind).at(rng.random()))) for kind in kinds[1:])
    users = kinds[1:-1].count("user")
    ranks = [(at + users_rank) / users for at in range(users)]
    rng.shuffle(ranks)
    news = [first]
    for kind, answer in zip(kinds[1:-1], outputs, strict=False):
        news.append(new_tokens(profile, kind, answer, rng, ranks.pop() if kind == "user" else None))
    return _Draft(first_tokens=first, kinds=kinds[:-1], outputs=outputs, news=tuple(news))


@lru_cache(maxsize=4)
def _simulated_ends(profile: AgentProfile) -> tuple[int, ...]:
    """Where sessions would end without compaction, sorted; ranks among them are turned into last inputs."""
    rng = seeded("agent ends")
    return tuple(
        sorted(_draft(profile, rng, *(rng.random() for _ in range(3))).end_tokens for _ in range(SIMULATED_SESSIONS))
    )


def _clearings(draft: _Draft, surplus: int, shared: int, rng: random.Random) -> dict[int, int]:
    """Tokens of tool results cleared before a call, by call; at most `surplus` in all."""
    later = range(1, len(draft.kinds))
    places = set(rng.sample(later, min(len(later), math.ceil(CLEARING_CALLS * len(draft.kinds)))))
    cleared: dict[int, int] = {}
    context, left = draft.first_tokens, surplus
    for at in later:
        context += draft.outputs[at - 1] + draft.news[at]
        size = min(left, int(CLEARED_SHARE * context), context - shared - 1)
        if at in places and size > 0:
            cleared[at] = size
            context, left = context - size, left - size
    return cleared


def _cuts(draft: _Draft, clearings: dict[int, int], surplus: int, shared: int, rng: random.Random) -> dict[int, int]:
    """Tokens taken away before a call, by call: the clearings, and `surplus` beside them by compactions.

    Never more than what is not shared.
    """
    parts = max(1, math.ceil(surplus / TYPICAL_CUT_TOKENS))
    cuts = dict(clearings)
    left, begin = surplus, 1
    for part in range(parts, 0, -1):
        size = left if part == 1 else left // part
        latest = begin + (len(draft.kinds) - begin) // part
        where = _place(draft, cuts, size, shared, rng.randint(begin, max(begin, latest)))
        cuts[where] = cuts.get(where, 0) + size
        left -= size
        begin = min(where + 1, len(draft.kinds) - 1)
    return cuts


def _place(draft: _Draft, cuts: dict[int, int], size: int, shared: int, earliest: int) -> int:
    """The first call from `earliest` on whose context can lose `size` tokens; the last call can always."""
    context = draft.first_tokens
    for at in range(1, len(draft.kinds)):
        context += draft.outputs[at - 1] + draft.news[at] - cuts.get(at, 0)
        if at >= earliest and context - size > shared and size <= DEEPEST_CUT * context:
            return at
    return len(draft.kinds) - 1


def _calls(
    profile: AgentProfile,
    draft: _Draft,
    cuts: dict[int, int],
    shared: int,
    rng: random.Random,
) -> tuple[Call, ...]:
    """A cut of a fifth of the context or less is told as cleared tool results, a deeper one as a compaction."""
    calls: list[Call] = []
    context = draft.first_tokens
    for at, kind in enumerate(draft.kinds):
        before, cut = context, cuts.get(at, 0)
        grown = context + draft.outputs[at - 1] + draft.news[at] if at else context
        context = max(shared + 1, grown - cut) if at else context
        compacted = cut > SHALLOW_SHARE * grown
        cleared = cut > 0 and not compacted
        alike = min(before, context)
        if cleared:
            alike = shared + round(rng.random() * max(0, alike - shared))
        calls.append(
            Call(
                kind=kind,
                input_tokens=context,
                new_tokens=draft.news[at],
                output_tokens=draft.outputs[at],
                prefix_tokens=None if not at else shared if compacted else alike,
                think_s=profile.think_s(kind).at(rng.random()) if at else 0.0,
                compacted=compacted,
                cleared=cleared,
            )
        )
    return tuple(calls)
