"""Sessions as a generator: pure, the same at every concurrency, in stages."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workloads.playing import asks_of, play
from workloads import WORKLOADS, WorkloadOptions
from workloads.plan import Ask, Observation, Phase, Wait
from workloads.sessions import SessionGenerator, share_turns
from workloads.text import approximate_count


def build(name: str, **more: Any) -> SessionGenerator:
    options: dict[str, Any] = {"seed": 3, "requests": 24, "highest_concurrency": 8, **more}
    return WORKLOADS[name](WorkloadOptions(**options), approximate_count)


@pytest.mark.parametrize("name", WORKLOADS)
def test_equal_options_give_equal_steps(name: str) -> None:
    assert play(build(name)) == play(build(name))
    assert build(name).spec() == build(name).spec()


@pytest.mark.parametrize("name", WORKLOADS)
def test_another_seed_gives_other_prompts(name: str) -> None:
    ours = {repr(ask.prompt) for ask in asks_of(play(build(name)))}
    others = {repr(ask.prompt) for ask in asks_of(play(build(name, seed=4)))}
    assert not ours & others


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("at_once", [1, 3, 8, 64])
def test_the_same_requests_come_whatever_the_concurrency(name: str, at_once: int) -> None:
    plan = build(name)
    expected = {ask.key: ask for ask in asks_of(play(plan, at_once=8))}
    assert {ask.key: ask for ask in asks_of(play(plan, at_once=at_once))} == expected


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_asked_number_of_requests_is_measured(name: str) -> None:
    asks = asks_of(play(build(name, requests=29, warmups=5)))
    assert sum(ask.phase is Phase.MEASURE for ask in asks) == 29
    assert sum(ask.phase is Phase.WARMUP for ask in asks) == 5
    assert len({ask.key for ask in asks}) == 34


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(sorted(WORKLOADS)),
    moves=st.lists(st.tuples(st.booleans(), st.integers(0, 10**9), st.sampled_from(["ok", "refused"])), max_size=60),
)
def test_next_is_pure(name: str, moves: list[tuple[bool, int, str]]) -> None:
    plan = PLANS[name]
    state, now_ns = plan.start(), 0
    running: list[str] = []
    for answer, pause_ns, outcome in moves:
        now_ns += pause_ns
        key = running.pop(0) if answer and running else None
        observation = None if key is None else Observation(key=key, outcome=outcome)
        before = copy.deepcopy(state)
        first = plan.next(state, observation, now_ns)
        assert first == plan.next(state, observation, now_ns) == PLANS_AGAIN[name].next(before, observation, now_ns)
        assert state == before
        state, step = first
        if isinstance(step, Ask):
            running.append(step.key)


PLANS = {name: build(name) for name in WORKLOADS}
PLANS_AGAIN = {name: build(name) for name in WORKLOADS}


def test_turns_of_a_session_wait_for_each_other() -> None:
    plan = build("agent", requests=8, highest_concurrency=2, warmups=0)
    state = plan.start()
    sent: list[Ask] = []
    while True:
        state, step = plan.next(state, None, 0)
        if isinstance(step, Wait):
            break
        sent += [step] if isinstance(step, Ask) else []
    assert [(ask.session, ask.turn) for ask in sent] == [("measure.00000", 0), ("measure.00001", 0)]
    state, step = plan.next(state, Observation(key=sent[1].key, outcome="unknown"), 5)
    assert isinstance(step, Ask)
    assert (step.session, step.turn) == ("measure.00001", 1)


def test_the_first_warm_up_request_goes_alone_and_measuring_waits_for_all() -> None:
    history = play(build("repeat", warmups=4), at_once=8)
    order = [(kind, key) for kind, key, _ in history if kind != "marker"]
    first_end = order.index(("answer", "first.00000.000"))
    assert first_end == 1
    last_warm = max(place for place, (kind, key) in enumerate(order) if kind == "answer" and key.startswith("warmup"))
    assert all(place > last_warm for place, (_, key) in enumerate(order) if key.startswith("measure"))


def test_a_warm_cache_is_filled_with_each_opening_prompt() -> None:
    asks = asks_of(play(build("agent", warm_cache=True)))
    fills = [ask for ask in asks if ask.key.startswith("fill")]
    openings = [ask for ask in asks if ask.key.startswith("measure") and ask.turn == 0]
    assert [ask.prompt for ask in fills] == [ask.prompt for ask in openings]
    assert {(ask.phase, ask.max_tokens) for ask in fills} == {(Phase.WARMUP, 1)}


def test_an_endless_plan_goes_on_like_a_bounded_one() -> None:
    endless = asks_of(play(build("agent", requests=None), stop_after=40))
    bounded = {ask.key: ask for ask in asks_of(play(build("agent", requests=64)))}
    assert len(endless) == 40
    assert all(bounded[ask.key] == ask for ask in endless)


@given(requests=st.integers(1, 500), turns=st.integers(1, 20), concurrency=st.integers(1, 200))
def test_shared_turns_add_up_and_keep_every_level_busy(requests: int, turns: int, concurrency: int) -> None:
    shares = share_turns(requests, turns, concurrency)
    assert sum(shares) == requests
    assert len(shares) >= min(concurrency, requests)
    assert max(shares) - min(shares) <= 1 and 1 <= max(shares) <= turns


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("agent", {"token_id_range": (0, 9)}),
        ("agent", {"input_tokens": 100}),
        ("repeat", {"turns": 3}),
        ("random", {"think_time_s": 1.0}),
        ("text", {"input_tokens": 5}),
        ("text", {"requests": 0}),
        ("text", {"highest_concurrency": 0}),
        ("text", {"warmups": -1}),
        ("text", {"warm_cache": True, "requests": None}),
        ("random", {"token_id_range": (5, 5)}),
    ],
)
def test_choices_that_make_no_sense_are_refused(name: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        build(name, **wrong)
