"""The judge on hand-written histories: billed rightly, wrongly, without prices or costs, empty, fields missing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.checks.billing.judge import judge
from harness.checks.history import CheckHistory, Prices
from harness.checks.verdict import Status
from tests.checks.chats import Said, Server, history
from workloads.billing import AGAIN, BillingOptions, billing
from workloads.cost import planned_asks
from workloads.material import Material
from workloads.plan import Ask
from workloads.text import approximate_count

PRICES = Prices(input=0.4, cached_input=0.1, output=1.6)


def asks(name: str = "r0") -> list[Ask]:
    material = Material(seed="t", count=approximate_count)
    return list(planned_asks(billing(material, BillingOptions(name=name))))


def billed(prompt: int, cached: int, output: int, cached_price: float = 0.1) -> float:
    return ((prompt - cached) * 0.4 + cached * cached_price + output * 1.6) / 1e6


def gateway(cached_price: float = 0.1) -> Server:
    """Bills every answer by its counts."""

    def server(ask: Ask) -> Said:
        prompt, cached = ask.expected_prompt_tokens or 0, 1024 if ask.arm == AGAIN else 0
        cost = billed(prompt, cached, ask.max_tokens, cached_price)
        return Said(
            text="words", prompt_tokens=prompt, completion_tokens=ask.max_tokens, cached=cached,
            extra={"cost": cost, "provider": "one"},
        )  # fmt: skip

    return server


def judged(server: Server, prices: Prices = PRICES, **more: object) -> CheckHistory:
    return history(asks(), server, "billing", prices=prices, **more)


def where(keys: tuple[str, ...], change: Callable[[Said], Said]) -> Server:
    """The right gateway, but for some requests."""
    return lambda ask: change(gateway()(ask)) if ask.key in keys else gateway()(ask)


def test_costs_that_prices_explain_pass() -> None:
    verdict = judge(judged(gateway()))
    assert verdict.status is Status.PASS and "12 of them cached" in verdict.reason
    read = verdict.details["prices_read_from_costs"]
    assert isinstance(read, list) and read[0]["cached_input"] == pytest.approx(0.1)


def test_cached_tokens_at_full_price_fail_against_named_prices() -> None:
    verdict = judge(judged(gateway(cached_price=0.4)))
    assert verdict.status is Status.FAIL and verdict.violations == 12
    assert verdict.evidence[0].table["cached_tokens"] == 1024


@pytest.mark.parametrize("cost", [-1.0, math.nan, 99.0, 0.0])
def test_a_wrong_cost_is_suspect_once_and_fails_twice(cost: float) -> None:
    def wrong(said: Said) -> Said:
        return replace(said, extra={"cost": cost})

    once = judge(judged(where(("r0/p0/1",), wrong)))
    assert once.status is Status.SUSPECT and once.follow_up is not None and once.follow_up.count == 8
    assert judge(judged(where(("r0/p0/1", "r0/p1/0"), wrong))).status is Status.FAIL
    again = judge(judged(where(("r0/p0/1",), wrong), rounds=2))
    assert again.status is Status.SUSPECT and again.follow_up is None


def test_costs_that_streams_do_not_tell_fail() -> None:
    def server(ask: Ask) -> Said:
        return replace(gateway()(ask), extra={}) if ask.stream else gateway()(ask)

    assert judge(judged(server)).status is Status.FAIL


def test_no_cost_anywhere_is_not_applicable_unless_required() -> None:
    silent = where(tuple(ask.key for ask in asks()), lambda said: replace(said, extra={}))
    assert judge(judged(silent)).status is Status.NOT_APPLICABLE
    required = judge(judged(silent, required=frozenset({"billing"})))
    assert required.status is Status.INCONCLUSIVE and "usage.cost" in required.reason


def test_a_cost_of_zero_is_a_cost() -> None:
    free = where(tuple(ask.key for ask in asks()), lambda said: replace(said, extra={"cost": 0}))
    assert judge(judged(free, prices=Prices(input=0, cached_input=0, output=0))).status is Status.PASS
    assert judge(judged(free)).status is Status.FAIL


def test_without_prices_they_are_read_from_the_costs() -> None:
    verdict = judge(judged(gateway(), prices=Prices()))
    assert verdict.status is Status.PASS and "25% of others" in verdict.reason and "Not tested" in verdict.reason
    full = judge(judged(gateway(cached_price=0.4), prices=Prices()))
    assert full.status is Status.SUSPECT and "no less" in full.reason


def test_costs_that_no_prices_explain_are_suspect() -> None:
    odd = where(("r0/p2/1",), lambda said: replace(said, extra={"cost": 0.01, "provider": "one"}))
    verdict = judge(judged(odd, prices=Prices()))
    assert verdict.status is Status.SUSPECT and "no prices explain" in verdict.reason


def test_providers_with_prices_of_their_own_are_read_apart() -> None:
    def server(ask: Ask) -> Said:
        said = gateway()(ask)
        dear = ask.key.startswith(("r0/p1", "r0/p3"))
        extra = {"cost": said.extra["cost"] * 3, "provider": "two"} if dear and said.extra else said.extra  # type: ignore[operator]
        return replace(said, extra=extra)

    verdict = judge(judged(server, prices=Prices()))
    assert verdict.status is Status.PASS


def test_hits_that_nobody_saw_leave_it_undecided() -> None:
    def server(ask: Ask) -> Said:
        prompt = ask.expected_prompt_tokens or 0
        cost = billed(prompt, 0, ask.max_tokens)
        return replace(gateway()(ask), cached=None, extra={"cost": cost})

    verdict = judge(judged(server))
    assert verdict.status is Status.INCONCLUSIVE and "cached tokens" in verdict.reason


def test_cached_tokens_that_are_not_reported_leave_a_range() -> None:
    """Anything between all cached and nothing cached may be due; beyond that it is wrong."""
    hidden = where(("r0/p0/1",), lambda said: replace(said, cached=None))
    assert judge(judged(hidden)).status is Status.PASS
    beyond = where(("r0/p0/1",), lambda said: replace(said, cached=None, extra={"cost": 0.01}))
    assert judge(judged(beyond)).status is Status.SUSPECT


def test_nothing_answered_and_no_counts_are_undecided() -> None:
    assert judge(history([], gateway(), "billing")).status is Status.INCONCLUSIVE
    uncounted = where(tuple(ask.key for ask in asks()), lambda said: replace(said, prompt_tokens=None))
    assert judge(judged(uncounted)).status is Status.INCONCLUSIVE
    cut = judge(history(asks()[:3], gateway(), "billing", prices=PRICES, cut_short="billing-r0 was interrupted"))
    assert cut.status is Status.INCONCLUSIVE and "interrupted" in cut.reason
