"""What a plan will cost, found by running its generator against imagined answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
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
    measured = asked = prompts = outputs = longest = 0
    complete = True
    for ask in planned_asks(generator, imagine):
        if ask.phase is Phase.MEASURE and measured == request_limit:
            complete = False
            break
        expected = ask.expected_prompt_tokens
        length = prompt_tokens(ask.prompt, count) if expected is None else expected
        measured += ask.phase is Phase.MEASURE
        asked, prompts, outputs, longest = asked + 1, prompts + length, outputs + ask.max_tokens, max(longest, length)
    return PlanCost(
        requests=measured,
        warmup_requests=asked - measured,
        prompt_tokens=prompts,
        output_tokens=outputs,
        longest_prompt_tokens=longest,
        complete=complete,
    )


def planned_asks(generator: Generator[State], imagine: Callable[[Ask], Observation] = answered) -> Iterator[Ask]:
    """Every request of the plan; waits and sleeps pass at once."""
    state, now_ns = generator.start(), 0
    running: deque[Ask] = deque()
    observation: Observation | None = None
    while True:
        state, step = generator.next(state, observation, now_ns)
        observation = None
        if isinstance(step, Done):
            return
        if isinstance(step, Sleep):
            now_ns += step.duration_ns
        if isinstance(step, Flush):
            observation = Observation(key=step.key, outcome="ok")
        if isinstance(step, Ask):
            yield step
            running.append(step)
        if running and (isinstance(step, Wait) or len(running) == _AT_ONCE):
            observation = imagine(running.popleft())
        elif isinstance(step, Wait):
            if step.until_ns is None:
                raise ValueError(f"{generator.name}: the plan waits for an answer while nothing is in flight")
            now_ns = max(now_ns, step.until_ns)
