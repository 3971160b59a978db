"""The verdict on tiers, on histories written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.checks.history import Answer, Capabilities, CheckHistory
from harness.checks.tiers.facts import Source, returns_of, told_tiers
from harness.checks.tiers.judge import judge
from harness.checks.verdict import Status
from harness.records import CounterSample
from tests.checks.parity.test_judge import answer
from workloads.plan import Json

PROMPTS = 12
FILLED = (("virgin", 0), ("virgin", 1), ("far", 0), ("hit", 0), ("hit", 1))
RETURNED = (("returned", 0), ("refilled", 0), ("returned-again", 0))


def made(
    number: int, arm: str, index: int, at: int, *, tiers: Json = None, shift: float = 0.0, cached: int | None = None
) -> Answer:
    """One answer; requests begin one second after the other."""
    usual = {"virgin": 0, "far": 64}.get(arm, 128)
    base = answer("tiers", number, arm, index, shift=shift, cached_tokens=usual if cached is None else cached)
    extra: dict[str, Json] = {} if tiers is None else {"sglext": {"cached_tokens_details": tiers}}
    complete = replace(base.record.complete, extra=extra, sent_ns=at * 10**9, end_ns=at * 10**9 + 10**6)
    invoke = replace(base.record.invoke, labels={"round": 0})
    return replace(base, record=replace(base.record, invoke=invoke, complete=complete))


def history(
    *, tiers: Json = None, shift: float = 0.0, counted: float | None = None, cached: int | None = None, **known: Any
) -> CheckHistory:
    """Every prompt filled, then returned. tiers: what a returned answer says. counted: tokens a return adds."""
    answers: list[Answer] = []
    samples = [CounterSample(at_ns=0, values={} if counted is None else {"tier_tokens": 0.0})]
    for number in range(PROMPTS):
        for arm, index in (*FILLED, *RETURNED):
            at = len(answers) + 1
            back = arm.startswith("returned")
            own: dict[str, Any] = {"tiers": tiers, "shift": shift, "cached": cached} if back else {}
            answers.append(made(number, arm, index, at, **{"shift": 0.01 * index, **own}))
            if counted is not None:
                last = samples[-1].values["tier_tokens"]
                samples.append(
                    CounterSample(at_ns=at * 10**9 + 2 * 10**6, values={"tier_tokens": last + (counted if back else 0)})
                )
    capabilities = Capabilities(engine="sglang", **known)
    return CheckHistory(answers=tuple(answers), capabilities=capabilities, counters=tuple(samples))


def test_what_comes_back_from_the_host_as_it_was_passes() -> None:
    verdict = judge(history(tiers={"device": 0, "host": 128}))
    assert verdict.status is Status.PASS, verdict.reason
    assert verdict.details["restored"] == 2 * PROMPTS
    assert verdict.details["restored_share"] == 1.0
    assert verdict.details["tiers_told_by"] == Source.ANSWER.value


def test_counters_tell_the_tier_where_answers_do_not() -> None:
    verdict = judge(history(counted=128))
    assert verdict.status is Status.PASS, verdict.reason
    assert verdict.details["tiers_told_by"] == Source.COUNTERS.value


def test_wrong_answers_after_a_return_are_suspect_until_repeated() -> None:
    verdict = judge(history(tiers={"device": 0, "host": 128}, shift=0.8))
    assert verdict.status is Status.SUSPECT
    assert verdict.follow_up is not None
    assert verdict.evidence


def test_tiers_that_do_not_add_up_fail() -> None:
    verdict = judge(history(tiers={"device": 0, "host": 64}))
    assert verdict.status is Status.FAIL
    assert "add up" in verdict.reason


def test_no_tier_behind_is_not_applicable() -> None:
    assert judge(history(cached=0)).status is Status.NOT_APPLICABLE


def test_what_the_device_kept_was_not_exercised() -> None:
    verdict = judge(history(tiers={"device": 128, "host": 0}))
    assert verdict.status is Status.INCONCLUSIVE
    assert "not exercised" in verdict.reason


def test_a_server_that_does_not_tell_tiers_is_undecided_with_the_flag() -> None:
    verdict = judge(history())
    assert verdict.status is Status.INCONCLUSIVE
    assert "--enable-cache-report" in verdict.reason


def test_nothing_asked_is_undecided_and_no_cache_is_not_applicable() -> None:
    empty = CheckHistory(answers=(), capabilities=Capabilities(engine="vllm"))
    assert judge(empty).status is Status.INCONCLUSIVE
    absent = CheckHistory(answers=(), capabilities=Capabilities(engine="vllm", cached_tokens=False))
    assert judge(absent).status is Status.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("known", "status"),
    [
        ({"host_tier": False}, Status.NOT_APPLICABLE),
        ({"host_tier": None, "cached_tokens": True}, Status.NOT_APPLICABLE),
        ({"host_tier": True, "cached_tokens": True}, Status.INCONCLUSIVE),
    ],
)
def test_where_nothing_returned_what_the_server_says_of_a_tier_decides(known: dict[str, bool], status: Status) -> None:
    probed = tuple(made(0, "virgin", index, 1 + index) for index in range(2))
    verdict = judge(CheckHistory(answers=probed, capabilities=Capabilities(engine="vllm", **known)))
    assert verdict.status is status


@pytest.mark.parametrize(
    ("extra", "found"),
    [
        ({}, {}),
        ({"sglext": None}, {}),
        ({"sglext": {"cached_tokens_details": {"device": 0, "host": 64, "storage": 8, "storage_backend": "x"}}},
         {"device": 0, "host": 64, "storage": 8}),
        ({"sglext": {"cached_tokens_details": {"device": True}}}, {}),
    ],
)  # fmt: skip
def test_what_an_answer_says_of_tiers(extra: dict[str, Json], found: dict[str, int]) -> None:
    assert told_tiers(extra) == found


def test_a_counter_that_runs_backwards_tells_nothing() -> None:
    told = history(counted=-5)
    assert {each.source for each in returns_of(told)} == {Source.NOBODY}
