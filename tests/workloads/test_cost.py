"""The cost of a plan before anything is sent."""

from __future__ import annotations

import pytest

from tests.workloads.playing import asks_of, play
from workloads import WORKLOADS, WorkloadOptions, plan_cost
from workloads.text import approximate_count


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("warm_cache", [False, True])
def test_the_cost_is_that_of_the_requests_sent(name: str, warm_cache: bool) -> None:
    options = WorkloadOptions(seed=1, requests=20, highest_concurrency=4, warm_cache=warm_cache)
    plan = WORKLOADS[name](options, approximate_count)
    asks = asks_of(play(plan))
    cost = plan_cost(plan)
    lengths = [ask.expected_prompt_tokens or 0 for ask in asks]
    assert cost.complete
    assert (cost.requests, cost.requests + cost.warmup_requests) == (20, len(asks))
    assert cost.prompt_tokens == sum(lengths) and cost.longest_prompt_tokens == max(lengths)
    assert cost.output_tokens == sum(ask.max_tokens for ask in asks)


def test_an_endless_plan_is_costed_up_to_the_limit() -> None:
    plan = WORKLOADS["agent"](WorkloadOptions(seed=1, requests=None, highest_concurrency=4), approximate_count)
    cost = plan_cost(plan, request_limit=50)
    assert not cost.complete
    assert (cost.requests, cost.warmup_requests) == (50, 4)


def test_think_time_does_not_change_the_cost() -> None:
    options = [WorkloadOptions(seed=1, requests=20, highest_concurrency=4, think_time_s=s) for s in (0.0, 60.0)]
    costs = [plan_cost(WORKLOADS["agent"](each, approximate_count)) for each in options]
    assert costs[0].requests == costs[1].requests == 20
    assert costs[0].output_tokens == costs[1].output_tokens
