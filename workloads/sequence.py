"""A plan that is a list of steps, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.plan import Ask, Done, Json, Observation, Step, Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceState:
    """position: the next step. awaited: the key of the step in progress, None if there is none."""

    position: int = 0
    awaited: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """Carries out `steps` in order; each request is answered before the next step.

    parameters: what the steps were made from.
    """

    name: str
    version: int
    steps: tuple[Step, ...]
    parameters: Mapping[str, Json]
    reacts: bool = False

    def spec(self) -> Mapping[str, Json]:
        return {**self.parameters, "requests": sum(isinstance(step, Ask) for step in self.steps)}

    def start(self) -> SequenceState:
        return SequenceState()

    def next(
        self, state: SequenceState, observation: Observation | None, now_ns: int
    ) -> tuple[SequenceState, Step | Wait | Done]:
        awaited = state.awaited
        if observation is not None and observation.key == awaited:
            awaited = None
        if awaited is not None:
            return state, Wait()
        if state.position == len(self.steps):
            return SequenceState(position=state.position), Done()
        step = self.steps[state.position]
        asked = step.key if isinstance(step, Ask) else None
        return SequenceState(position=state.position + 1, awaited=asked), step
