"""Plans in phases: the steps of each are made from everything that was seen in those before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from workloads.plan import Ask, Done, Flush, Json, Observation, Step, Wait

Seen: TypeAlias = Mapping[str, Observation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What is known when a phase is planned: the requests so far, and what was seen of each, by key."""

    asks: tuple[Ask, ...] = ()
    seen: Seen = field(default_factory=dict)

    def cached(self, key: str) -> int | None:
        """Cached tokens of a request; None if it was not reported or there was no answer."""
        observation = self.seen.get(key)
        return None if observation is None else observation.cached_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasedState:
    """phase: the one in progress. steps: what is left of it. awaited: the key whose observation has to come first."""

    phase: int = -1
    steps: tuple[Step, ...] = ()
    awaited: str | None = None
    past: Past = field(default_factory=Past)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phased:
    """Carries out one phase after the other, each step after the answer to the one before.

    parameters: what the phases were made from.
    """

    name: str
    version: int
    phases: tuple[Callable[[Past], tuple[Step, ...]], ...]
    parameters: Mapping[str, Json]
    reacts: bool = True

    def spec(self) -> Mapping[str, Json]:
        return self.parameters

    def start(self) -> PhasedState:
        return PhasedState()

    def next(
        self, state: PhasedState, observation: Observation | None, now_ns: int
    ) -> tuple[PhasedState, Step | Wait | Done]:
        if observation is not None:
            state = _observed(state, observation)
        if state.awaited is not None:
            return state, Wait()
        while not state.steps:
            following = state.phase + 1
            if following == len(self.phases):
                return state, Done()
            state = replace(state, phase=following, steps=self.phases[following](state.past))
        step, *rest = state.steps
        past = replace(state.past, asks=(*state.past.asks, step)) if isinstance(step, Ask) else state.past
        awaited = step.key if isinstance(step, Ask | Flush) else None
        return replace(state, steps=tuple(rest), awaited=awaited, past=past), step


def _observed(state: PhasedState, observation: Observation) -> PhasedState:
    past = replace(state.past, seen={**state.past.seen, observation.key: observation})
    return replace(state, past=past, awaited=None if observation.key == state.awaited else state.awaited)
