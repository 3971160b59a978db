"""Endpoint options of a duel: a side's own wins over the one for both; the order of cells is A B B A."""

from __future__ import annotations

from typing import cast

import click
import pytest

from harness.cli.duel import duel
from harness.cli.duel_options import ENDPOINT_OPTIONS, SIDES, side_options
from harness.cli.duel_run import order_of


def typed(*arguments: str) -> dict[str, object]:
    return cast(dict[str, object], duel.make_context("duel", list(arguments)).params)


def test_an_unprefixed_option_holds_for_both_and_a_prefixed_one_wins() -> None:
    given = typed(
        "--a", "http://a", "--b-base-url", "http://b", "--model", "m", "--b-model", "n", "--stall-timeout", "5"
    )
    a, b = (side_options(side, given) for side in SIDES)
    assert (a.base_url, a.model, a.stall_timeout_s) == ("http://a", "m", 5.0)
    assert (b.base_url, b.model, b.stall_timeout_s) == ("http://b", "n", 5.0)
    assert (a.endpoint_type, a.connect_timeout_s) == ("chat", 10.0)


def test_one_server_can_be_both_sides_under_two_models() -> None:
    given = typed("--base-url", "http://host", "--a-model", "m", "--b-model", "n")
    assert [side_options(side, given).model for side in SIDES] == ["m", "n"]


def test_every_endpoint_option_has_both_prefixes() -> None:
    flags = {flag for parameter in duel.params for flag in parameter.opts}
    for option in ENDPOINT_OPTIONS:
        assert {f"--{option.name}", f"--a-{option.name}", f"--b-{option.name}"} <= flags


def test_a_key_of_one_side_does_not_go_to_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    given = typed("--base-url", "http://host", "--b-api-key", "sk-b", "--a-header", "X-Team: a")
    a, b = (side_options(side, given) for side in SIDES)
    assert (a.api_key, b.api_key) == (None, "sk-b")
    assert (a.headers, b.headers) == (("X-Team: a",), ())


def test_a_missing_side_is_a_usage_error() -> None:
    with pytest.raises(click.UsageError, match="--b URL is missing"):
        side_options("b", typed("--a", "http://a"))


@pytest.mark.parametrize(("rounds", "order"), [(1, "AB"), (2, "ABBA"), (3, "ABBAAB"), (4, "ABBAABBA")])
def test_cells_take_turns(rounds: int, order: str) -> None:
    assert "".join("AB"[side] for side, _ in order_of(rounds)) == order


def test_a_deployment_sets_the_sampling_of_its_own_side_but_for_what_was_typed() -> None:
    given = typed("--base-url", "http://host", "--b-preset", "ling-3.1-flash-8xh200", "--b-retries", "2")
    a, b = (side_options(side, given, frozenset({"top_k"})) for side in SIDES)
    assert a.sampled({"temperature": 0.0}) == {"temperature": 0.0}
    sampled = b.sampled({"temperature": 0.0, "top_k": 5})
    assert sampled.pop("chat_template_kwargs") == {"enable_thinking": True}
    assert sampled == {"temperature": 1.0, "top_p": 0.95, "top_k": 5}
    assert (a.retries, b.retries, b.metrics_urls) == (0, 2, ())


def test_a_model_preset_is_for_the_memory_alone() -> None:
    given = typed("--base-url", "http://host", "--preset", "deepseek-v3")
    assert [side_options(side, given).sampling for side in SIDES] == [{}, {}]
