"""The plans of the checks of drafts, streams and heartbeats: what they ask, and in which order."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from workloads.heartbeat import AFTER, BEFORE, LOAD, HeartbeatOptions, heartbeat
from workloads.material import Material
from workloads.mtp import STOPPED, WATCHED, MtpOptions, mtp
from workloads.plan import Ask, Done, Generator, Observation, Step, TokenPrompt, Wait
from workloads.spec_parity import ANSWER, RESCORED, SpecParityOptions, spec_parity
from workloads.stream import StreamOptions, stream
from workloads.text import approximate_count

MATERIAL = Material(seed="t", count=approximate_count, token_ids=tuple(random.Random(7).choices(range(1, 500), k=4000)))


def healthy(ask: Ask) -> Observation:
    ids = tuple(range(1000, 1000 + ask.max_tokens))
    return Observation(key=ask.key, outcome="ok", text="words enough to find one in the middle", token_ids=ids)


def steps_of(generator: Generator[Any], see: Callable[[Ask], Observation] = healthy) -> list[Step]:
    """Every step, each request answered as soon as the plan waits."""
    state = generator.start()
    seen: Observation | None = None
    steps: list[Step] = []
    running: list[Ask] = []
    while True:
        state, step = generator.next(state, seen, 0)
        seen = None
        if isinstance(step, Done):
            return steps
        if isinstance(step, Wait):
            seen = see(running.pop(0))
            continue
        steps.append(step)
        if isinstance(step, Ask):
            running.append(step)


def asks_of(generator: Generator[Any], see: Callable[[Ask], Observation] = healthy) -> list[Ask]:
    asks = [step for step in steps_of(generator, see) if isinstance(step, Ask)]
    assert len({ask.key for ask in asks}) == len(asks)
    return asks


def test_rescored_prompts_are_the_prompt_and_the_start_of_its_answer() -> None:
    asks = asks_of(spec_parity(MATERIAL, SpecParityOptions(prompts=3, sampled=1)))
    answers = {ask.session: ask for ask in asks if ask.labels["kind"] == ANSWER}
    again = [ask for ask in asks if ask.labels["kind"] == RESCORED]
    assert len(answers) == 3 and len(again) == 30
    for ask in again:
        prompt, first = ask.prompt, answers[ask.session].prompt
        assert isinstance(prompt, TokenPrompt) and isinstance(first, TokenPrompt)
        position = ask.labels["position"]
        assert isinstance(position, int) and ask.max_tokens == 1
        assert prompt.token_ids == (*first.token_ids, *range(1000, 1000 + position))
    assert len({str(ask.parameters["cache_salt"]) for ask in again}) == len(again)


def test_nothing_is_rescored_without_ids_or_elsewhere() -> None:
    def silent(ask: Ask) -> Observation:
        return Observation(key=ask.key, outcome="ok")

    options = SpecParityOptions(prompts=3, sampled=2)
    assert {ask.labels["kind"] for ask in asks_of(spec_parity(MATERIAL, options), silent)} == {"answer", "sampled"}
    elsewhere = SpecParityOptions(prompts=3, sampled=2, rescore=False)
    assert {ask.labels["kind"] for ask in asks_of(spec_parity(MATERIAL, elsewhere))} == {"answer", "sampled"}


def test_two_rounds_share_no_prompt() -> None:
    first, second = (
        {str(ask.prompt) for ask in asks_of(spec_parity(MATERIAL, SpecParityOptions(name=name, prompts=6)))}
        for name in ("r0", "r1")
    )
    assert not first & second


def test_counters_are_read_after_every_request_of_mtp_but_the_watched_one() -> None:
    steps = steps_of(mtp(MATERIAL, MtpOptions(prompts=2)))
    follows = [type(after).__name__ for step, after in pairwise(steps) if isinstance(step, Ask)]
    assert set(follows[:-1]) == {"Scrape"} and follows[-1] == "Sleep"


def test_mtp_ends_amid_drafts_only_where_ids_are_given() -> None:
    options = MtpOptions(prompts=2)
    with_ids = asks_of(mtp(MATERIAL, options))
    stopped = [ask for ask in with_ids if ask.arm == STOPPED]
    assert len(stopped) == 10 and all(ask.parameters["stop_token_ids"] == [1032] for ask in stopped)
    without = asks_of(mtp(MATERIAL, options), lambda ask: Observation(key=ask.key, outcome="ok", text="a"))
    assert not any(ask.arm == STOPPED for ask in without) and without[-1].arm == WATCHED


def test_a_heartbeat_asks_the_same_battery_in_every_round() -> None:
    first = asks_of(heartbeat(MATERIAL, HeartbeatOptions(load=5)))
    again = asks_of(heartbeat(MATERIAL, HeartbeatOptions(round_index=1)))
    batteries = {phase: [ask.prompt for ask in first if ask.arm == phase] for phase in (BEFORE, AFTER)}
    assert batteries[BEFORE] == batteries[AFTER] == [ask.prompt for ask in again]
    assert sum(ask.arm == LOAD for ask in first) == 10
    salts = [ask.parameters["cache_salt"] for ask in [*first, *again] if "cache_salt" in ask.parameters]
    assert len(set(salts)) == len(salts) == 4 * 24


def test_every_prompt_is_asked_in_both_forms() -> None:
    asks = asks_of(stream(MATERIAL, StreamOptions(prompts=4, continuous=True, chat=True)))
    kinds = {str(ask.labels["kind"]) for ask in asks}
    assert kinds == {"plain", "one", "stop", "tool", "reasoning"}
    for name in {ask.session for ask in asks}:
        forms = [ask.stream for ask in asks if ask.session == name and not ask.labels["continuous"]]
        assert forms == [False, True, True, False]
    assert all(ask.labels["stop"] == ["one"] for ask in asks if ask.labels["kind"] == "stop")
