"""Plans in phases of waves: the steps of a wave begin together, and the next wave waits for all of their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from workloads.phases import Past
from workloads.plan import Ask, Done, Flush, Json, Observation, Step, Wait

Wave: TypeAlias = tuple[Step, ...]
Phase: TypeAlias = Callable[[Past], tuple[Wave, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WavesState:
    """phase: the one in progress. waves: what is left of it, the first perhaps begun. awaited: keys in flight."""

    phase: int = -1
    waves: tuple[Wave, ...] = ()
    awaited: frozenset[str] = frozenset()
    past: Past = field(default_factory=Past)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waves:
    """Carries out one phase after the other; each is made from everything seen before it.

    parameters: what the phases were made from.
    """

    name: str
    version: int
    phases: tuple[Phase, ...]
    parameters: Mapping[str, Json]
    reacts: bool = True

    def spec(self) -> Mapping[str, Json]:
        return self.parameters

    def start(self) -> WavesState:
        return WavesState()

    def next(
        self, state: WavesState, observation: Observation | None, now_ns: int
    ) -> tuple[WavesState, Step | Wait | Done]:
        if observation is not None:
            past = replace(state.past, seen={**state.past.seen, observation.key: observation})
            state = replace(state, past=past, awaited=state.awaited - {observation.key})
        while not state.waves or not state.waves[0]:
            if state.awaited:
                return state, Wait()
            if state.waves:
                state = replace(state, waves=state.waves[1:])
            elif state.phase + 1 == len(self.phases):
                return state, Done()
            else:
                state = replace(state, phase=state.phase + 1, waves=self.phases[state.phase + 1](state.past))
        (step, *rest), *later = state.waves
        past = replace(state.past, asks=(*state.past.asks, step)) if isinstance(step, Ask) else state.past
        awaited = state.awaited | {step.key} if isinstance(step, Ask | Flush) else state.awaited
        return replace(state, waves=(tuple(rest), *later), awaited=awaited, past=past), step
