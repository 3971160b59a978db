"""The plan of cached-tokens: pure, sequential, and true in what it says its prompts have in common."""

from __future__ import annotations

import random
from collections.abc import Callable

from workloads.cached_tokens import SIGHTINGS, CachedTokensOptions, cached_tokens, imagined
from workloads.cost import plan_cost
from workloads.material import Material
from workloads.phases import Phased
from workloads.plan import Ask, Done, Observation, Scrape, TokenPrompt, Wait
from workloads.text import approximate_count

MATERIAL = Material(seed="s", count=approximate_count, token_ids=tuple(random.Random(3).choices(range(500), k=3000)))
OPTIONS = CachedTokensOptions(longest_tokens=4096)


def carried_out(generator: Phased, answer: Callable[[Ask], Observation] = imagined) -> list[Ask]:
    """Every request of a plan, each answered before the next step."""
    state, observation = generator.start(), None
    asks: list[Ask] = []
    while True:
        state, step = generator.next(state, observation, 0)
        observation = None
        if isinstance(step, Done):
            return asks
        if isinstance(step, Ask):
            asks.append(step)
            assert isinstance(generator.next(state, None, 0)[1], Wait), "nothing else while a request is out"
            observation = answer(step)
            state, step = generator.next(state, observation, 0)
            observation = None
            if isinstance(step, Done):
                return asks
            assert isinstance(step, Scrape), "the counters are read after every request"


def blocks_of_64(ask: Ask) -> Observation:
    assert isinstance(ask.prompt, TokenPrompt)
    length, shared = len(ask.prompt.token_ids), ask.labels["may_hit"]
    assert isinstance(shared, int)
    cached = min(shared, length - 1) // 64 * 64
    return Observation(key=ask.key, outcome="ok", prompt_tokens=length, cached_tokens=cached)


def no_hit(ask: Ask) -> Observation:
    return Observation(key=ask.key, outcome="ok", prompt_tokens=ask.expected_prompt_tokens, cached_tokens=0)


def test_every_family_is_asked_when_the_cache_works() -> None:
    asks = carried_out(cached_tokens(MATERIAL, OPTIONS), blocks_of_64)
    arms = {ask.arm for ask in asks}
    assert arms == {
        "smallest", "repeat", "spacing", "filler", "length", "boundary", "prefix", "turn", "fork", "twin", "salted",
        "stream", "continuous", "choices",
    }  # fmt: skip
    assert len({ask.key for ask in asks}) == len(asks)


def test_what_a_prompt_has_in_common_with_earlier_ones_is_true() -> None:
    asks = carried_out(cached_tokens(MATERIAL, OPTIONS), blocks_of_64)
    for index, ask in enumerate(asks):
        assert isinstance(ask.prompt, TokenPrompt)
        longest = 0
        for earlier in asks[:index]:
            assert isinstance(earlier.prompt, TokenPrompt)
            pairs = zip(ask.prompt.token_ids, earlier.prompt.token_ids, strict=False)
            common = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
            shorter = min(len(ask.prompt.token_ids), len(earlier.prompt.token_ids))
            longest = max(longest, shorter if common is None else common)
        assert ask.labels["may_hit"] == longest, ask.key


def test_lengths_gather_at_the_boundaries_once_the_step_is_known() -> None:
    asks = carried_out(cached_tokens(MATERIAL, OPTIONS), blocks_of_64)
    lengths = [ask.expected_prompt_tokens for ask in asks if ask.arm == "boundary"]
    residues = {length % 64 for length in lengths if length is not None}
    assert residues >= {0, 1, 63}


def test_marks_of_the_server_are_asked_too() -> None:
    options = CachedTokensOptions(longest_tokens=4096, marks=(512,))
    asks = carried_out(cached_tokens(MATERIAL, options), blocks_of_64)
    assert {512, 513} <= {ask.expected_prompt_tokens for ask in asks if ask.arm == "boundary"}


def test_without_a_hit_prompts_grow_to_the_limit_and_then_the_plan_is_short() -> None:
    asks = carried_out(cached_tokens(MATERIAL, OPTIONS), no_hit)
    assert {ask.expected_prompt_tokens for ask in asks if ask.arm == "repeat"} == {1024, 2048, 4096}
    assert not {ask.arm for ask in asks} & {"prefix", "turn", "fork", "twin", "boundary"}


def test_repeats_double_when_two_servers_take_turns() -> None:
    def two_servers(ask: Ask) -> Observation:
        """Only every second sighting meets what an earlier one left: those spaced by one other request."""
        seen = blocks_of_64(ask)
        adjacent = ask.arm == "spacing" and ask.labels["spacing"] == 1
        return no_hit(ask) if adjacent else seen

    asks = carried_out(cached_tokens(MATERIAL, OPTIONS), two_servers)
    sightings = [ask.session for ask in asks if ask.arm == "length"]
    assert sightings.count(sightings[0]) == 2 * SIGHTINGS


def test_another_round_asks_fresh_prompts() -> None:
    first = carried_out(cached_tokens(MATERIAL, OPTIONS), blocks_of_64)
    second = carried_out(cached_tokens(MATERIAL, CachedTokensOptions(name="r1", longest_tokens=4096)), blocks_of_64)
    assert not {ask.prompt for ask in first} & {ask.prompt for ask in second}


def test_the_same_seed_plans_the_same() -> None:
    assert carried_out(cached_tokens(MATERIAL, OPTIONS)) == carried_out(cached_tokens(MATERIAL, OPTIONS))


def test_the_cost_is_foreseen() -> None:
    cost = plan_cost(cached_tokens(MATERIAL, OPTIONS), imagine=imagined)
    asked = carried_out(cached_tokens(MATERIAL, OPTIONS), blocks_of_64)
    assert cost.complete
    assert 0.7 < cost.requests / len(asked) < 1.4
