"""The plans of the checks of drafts, streams and heartbeats: what they ask, and in which order."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from harness.checks.check import CheckBudget, PlanRequest
from harness.checks.history import Capabilities
from harness.checks.mtp.check import MTP
from workloads.heartbeat import AFTER, BEFORE, LOAD, HeartbeatOptions, heartbeat
from workloads.material import Material
from workloads.mtp import FLOOD, FOUND, RETURNED, STOPPED, WATCHED, MtpOptions, mtp
from workloads.plan import Ask, Done, Generator, Observation, Step, TextPrompt, TokenPrompt, Wait
from workloads.spec_parity import ANSWER, OPENING, RESCORED, SpecParityOptions, spec_parity
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


def test_openings_are_answers_of_two_tokens_of_which_the_second_is_rescored() -> None:
    asks = asks_of(spec_parity(MATERIAL, SpecParityOptions(prompts=3, openings=6, sampled=1)))
    openings = {ask.session: ask for ask in asks if ask.labels["kind"] == OPENING}
    assert len(openings) == 6 and {ask.max_tokens for ask in openings.values()} == {2}
    again = [ask for ask in asks if ask.labels["kind"] == RESCORED and ask.session in openings]
    assert [(ask.labels["position"], ask.labels["clean"]) for ask in again] == [(1, True)] * 6


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


def test_found_texts_are_classes_of_every_second_turn_and_come_as_they_are() -> None:
    text = "\n".join(f"line {number} of a real text" for number in range(4000))
    found = replace(MATERIAL, found={"documentation": text})
    asks = asks_of(mtp(found, MtpOptions(prompts=2)))
    colds = [ask for ask in asks if ask.arm == "cold" and ask.labels["content"] == "documentation"]
    assert len(colds) == 1
    prompt = colds[0].prompt
    assert isinstance(prompt, TextPrompt) and prompt.text.partition(" ")[2] in text
    assert "source" not in {ask.labels["content"] for ask in asks}
    assert not {ask.labels["content"] for ask in asks_of(mtp(MATERIAL, MtpOptions(prompts=2)))} & set(FOUND)


def test_every_second_text_is_drawn_at_temperature_1() -> None:
    asks = asks_of(mtp(MATERIAL, MtpOptions(prompts=2)))
    colds, sampled = ([ask for ask in asks if ask.arm == arm] for arm in ("cold", "sampled"))
    assert len(sampled) == len(colds) / 2
    assert {ask.prompt for ask in sampled} < {ask.prompt for ask in colds}
    assert all(ask.parameters["temperature"] == 1.0 for ask in sampled)
    assert len({ask.parameters["seed"] for ask in sampled}) == len(sampled)


def test_the_copied_entry_goes_on_and_on() -> None:
    ask = next(ask for ask in asks_of(mtp(MATERIAL, MtpOptions(prompts=1))) if ask.labels["content"] == "copy")
    assert isinstance(ask.prompt, TextPrompt)
    entries = ask.prompt.text.partition(" ")[2].split(". ")
    assert len(entries) > 2 and set(entries[:-1]) == {entries[0]} and entries[0].startswith(entries[-1])


def test_texts_return_behind_a_flood_where_one_is_allowed() -> None:
    options = MtpOptions(prompts=2, flood_tokens=2000)
    asks = asks_of(mtp(MATERIAL, options))
    strangers = [ask for ask in asks if ask.arm == FLOOD]
    assert [ask.expected_prompt_tokens for ask in strangers] == [720] * 3
    returned = asks[asks.index(strangers[-1]) + 1 :]
    assert [ask.prompt for ask in returned[::-1]] == [ask.prompt for ask in asks if ask.arm in ("cold", "deep")]
    assert {ask.arm for ask in returned} == {RETURNED} == {ask.labels["arm"] for ask in returned}
    assert not {FLOOD, RETURNED} & {ask.arm for ask in asks_of(mtp(MATERIAL, MtpOptions(prompts=2)))}


@pytest.mark.parametrize(
    ("known", "exclusive", "tokens"),
    [
        (Capabilities(host_tier=True, cache_tokens=10_000), True, 13_000),
        (Capabilities(host_tier=True, cache_tokens=10_000), False, 0),
        (Capabilities(host_tier=None, cache_tokens=10_000), True, 0),
        (Capabilities(host_tier=True, cache_tokens=None), True, 0),
        (Capabilities(host_tier=True, cache_tokens=1_000_000), True, 0),
    ],
)
def test_a_flood_takes_a_second_tier_a_device_of_known_size_and_leave(
    known: Capabilities, exclusive: bool, tokens: int
) -> None:
    request = PlanRequest(
        budget=CheckBudget(), capabilities=known, material=MATERIAL, seed=1, max_model_len=4096, exclusive=exclusive
    )
    assert MTP.plan(request).spec()["flood_tokens"] == tokens


def test_one_token_answers_are_asked_only_where_samples_alarmed() -> None:
    options = SpecParityOptions(prompts=3, sampled=2, singles=5)
    lengths = [ask.max_tokens for ask in asks_of(spec_parity(MATERIAL, options)) if ask.labels["kind"] == "sampled"]
    assert lengths == [48, 48, 1, 1, 1, 1, 1]


def test_a_battery_asks_every_probe_plain_before_any_under_a_salt() -> None:
    asks = asks_of(heartbeat(MATERIAL, HeartbeatOptions(load=1, salt=True)))
    battery = [ask for ask in asks if ask.labels["phase"] == BEFORE]
    assert [ask.labels["salted"] for ask in battery] == [False] * (len(battery) // 2) + [True] * (len(battery) // 2)


def test_only_the_watched_answer_is_kept_from_ending() -> None:
    asks = asks_of(mtp(MATERIAL, MtpOptions(prompts=1, endless={"ignore_eos": True})))
    assert [ask.arm for ask in asks if "ignore_eos" in ask.parameters] == [WATCHED]
