"""Plays a generator against a server that answers in order, and notes what happened."""

from __future__ import annotations

from typing import Any

from workloads.plan import Ask, Done, Generator, Marker, Observation, Wait

Event = tuple[str, str, Ask | None]


def play(plan: Generator[Any], *, at_once: int = 8, stop_after: int | None = None) -> list[Event]:
    """("ask" | "answer" | "marker", key, the request of an ask), in order; the oldest request is answered first."""
    state, now_ns = plan.start(), 0
    events: list[Event] = []
    running: list[str] = []
    observation: Observation | None = None
    while stop_after is None or sum(kind == "ask" for kind, _, _ in events) < stop_after:
        state, step = plan.next(state, observation, now_ns)
        observation = None
        if isinstance(step, Done):
            break
        if isinstance(step, Ask):
            events.append(("ask", step.key, step))
            running.append(step.key)
        if isinstance(step, Marker):
            events.append(("marker", step.key, None))
        if running and (len(running) == at_once or isinstance(step, Wait)):
            key = running.pop(0)
            events.append(("answer", key, None))
            observation = Observation(key=key, outcome="ok")
        elif isinstance(step, Wait):
            assert step.until_ns is not None
            now_ns = step.until_ns
    return events


def asks_of(events: list[Event]) -> list[Ask]:
    return [ask for _, _, ask in events if ask is not None]
