"""What a plan will cost, found by running its generator against imagined answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from workloads.plan import Ask, Done, Flush, Generator, Observation, Phase, Sleep, State, Wait
from workloads.text import CountTokens, approximate_count, prompt_tokens

_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCost:
    """Requests and tokens of one cell.

    requests counts measured ones; tokens include the warm-up. Output tokens are the most that may come.
    complete: False if the plan went on beyond the asked limit.
    """

    requests: int
    warmup_requests: int
    prompt_tokens: int
    output_tokens: int
    longest_prompt_tokens: int
    complete: bool


def answered(ask: Ask) -> Observation:
    """The plainest answer: it came, and nothing more is known of it."""
    return Observation(key=ask.key, outcome="ok")


def plan_cost(
    generator: Generator[State],
    *,
    request_limit: int = 100_000,
    count: CountTokens = approximate_count,
    imagine: Callable[[Ask], Observation] = answered,
) -> PlanCost:
    """The cost of the plan's first `request_limit` measured requests; `count` serves prompts without a stated length.

    A generator that reacts sees what `imagine` makes of each request, so its true cost may differ.
    """
    asks, complete = _asked(generator, request_limit, imagine)
    lengths = [
        prompt_tokens(ask.prompt, count) if ask.expected_prompt_tokens is None else ask.expected_prompt_tokens
        for ask in asks
    ]
    measured = sum(ask.phase is Phase.MEASURE for ask in asks)
    return PlanCost(
        requests=measured,
        warmup_requests=len(asks) - measured,
        prompt_tokens=sum(lengths),
        output_tokens=sum(ask.max_tokens for ask in asks),
        longest_prompt_tokens=max(lengths, default=0),
        complete=complete,
    )


def _asked(
    generator: Generator[State], request_limit: int, imagine: Callable[[Ask], Observation]
) -> tuple[list[Ask], bool]:
    """Every request of the plan, and whether the plan ended; waits and sleeps pass at once."""
    state, now_ns = generator.start(), 0
    asks: list[Ask] = []
    running: deque[Ask] = deque()
    observation: Observation | None = None
    measured = 0
    while True:
        state, step = generator.next(state, observation, now_ns)
        observation = None
        if isinstance(step, Done):
            return asks, True
        if isinstance(step, Sleep):
            now_ns += step.duration_ns
        if isinstance(step, Flush):
            observation = Observation(key=step.key, outcome="ok")
        if isinstance(step, Ask):
            if step.phase is Phase.MEASURE and measured == request_limit:
                return asks, False
            measured += step.phase is Phase.MEASURE
            asks.append(step)
            running.append(step)
        if running and (isinstance(step, Wait) or len(running) == _AT_ONCE):
            observation = imagine(running.popleft())
        elif isinstance(step, Wait):
            if step.until_ns is None:
                raise ValueError(f"{generator.name}: the plan waits for an answer while nothing is in flight")
            now_ns = max(now_ns, step.until_ns)
