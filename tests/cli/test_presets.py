"""Presets: a published deployment's sampling where nothing was typed, and its figures beside a run's own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click
import pytest

from harness.checks.check import CheckBudget
from harness.cli.memory import named_model
from harness.cli.presets import (
    deployment_of,
    from_preset,
    sampled_fields,
    tell_checks_preset,
    tell_preset,
    with_preset,
)
from harness.cli.target import parse_access
from harness.drive.checking import CheckSetting, sampling_of
from harness.memory.deployment import parse_deployment
from harness.metrics import CellSummary
from harness.records import Metric, TargetInfo
from harness.report.compare.published import published_names
from harness.report.deployments import deployment_names, load_deployment, published_tables
from harness.report.derive import RunSummary
from tests.store.samples import run_info
from workloads.material import Material

GIVEN = {"temperature": 0.0, "top_p": None, "top_k": None, "extra_body": None, "endpoint_type": "chat"}


def nothing_typed(name: str) -> bool:
    return False


@pytest.mark.parametrize("name", deployment_names())
def test_every_deployment_has_the_published_sampling_and_figures_that_exist(name: str) -> None:
    found = load_deployment(name)
    assert found.name == name and found.source and found.launch
    assert found.sampling == {"temperature": 1.0, "top_p": 0.95, "top_k": 20}
    assert (found.context_tokens, found.expected_acceptance) == (262144, 2.13)
    assert found.published and set(found.published) <= set(published_names())
    assert named_model(name)[0].name == "ling-3.1-flash"


def test_there_is_one_for_each_published_deployment() -> None:
    assert {"ling-3.1-flash", "ling-3.1-flash-8xh200", "ling-3.1-flash-4xgb300"} <= set(deployment_names())
    assert len(deployment_names()) == 5


def test_a_preset_fills_in_what_was_not_typed() -> None:
    found = with_preset({**GIVEN, "preset": "ling-3.1-flash"}, nothing_typed)
    assert (found["temperature"], found["top_p"], found["top_k"]) == (1.0, 0.95, 20)
    assert json.loads(str(found["extra_body"])) == {"chat_template_kwargs": {"enable_thinking": True}}


def test_what_was_typed_wins() -> None:
    given = {**GIVEN, "preset": "ling-3.1-flash", "temperature": 0.3}
    given["extra_body"] = '{"chat_template_kwargs": {"enable_thinking": false}, "min_p": 0.1}'
    found = with_preset(given, lambda name: name == "temperature")
    assert (found["temperature"], found["top_k"]) == (0.3, 20)
    assert json.loads(str(found["extra_body"])) == {"chat_template_kwargs": {"enable_thinking": False}, "min_p": 0.1}


def test_completions_have_no_thinking_switch() -> None:
    found = with_preset({**GIVEN, "preset": "ling-3.1-flash", "endpoint_type": "completions"}, nothing_typed)
    assert found["extra_body"] is None


def test_without_a_preset_nothing_changes() -> None:
    assert with_preset({**GIVEN, "preset": None}, nothing_typed) == {**GIVEN, "preset": None}


def test_an_unknown_preset_is_a_usage_error_that_lists_those_there_are() -> None:
    with pytest.raises(click.UsageError, match="no preset is called gpt; there are ling"):
        deployment_of("gpt")


def test_a_server_with_less_context_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    info = TargetInfo(base_url="http://x", chosen_by="option", model="m", endpoint_type="chat", max_model_len=131072)
    tell_preset("ling-3.1-flash", {"temperature": 1.0}, info)
    said = capsys.readouterr().err
    assert 'preset ling-3.1-flash: {"temperature": 1.0}' in said
    assert "plans on 262,144 tokens of context, this server takes 131,072" in said


def test_a_malformed_deployment_says_what_is_missing() -> None:
    with pytest.raises(ValueError, match="source, model, hardware, launch"):
        parse_deployment({"name": "x"})


def summary(preset: str | None) -> RunSummary:
    """A run with a cell at concurrency 1 and one at 8, of 125.6 tokens/s each."""
    made = Metric(name="output_throughput", unit="tokens/s", value=125.6, count=1)
    cells = tuple(
        CellSummary(
            cell=f"c{level}", workload="agent", concurrency=level, cache_mode="cold", finished=True, metrics=(made,),
            failures=(), warnings=(),
        )
        for level in (1, 8)
    )  # fmt: skip
    info = replace(run_info(), options={"preset": preset})
    return RunSummary(path=Path("x"), info=info, percentiles=(50.0,), cells=cells, warnings=())


def test_published_figures_stand_beside_the_cells_of_their_level() -> None:
    (table,) = published_tables([summary("ling-3.1-flash-8xh200")])
    assert [tuple(row) for row in table.values] == [
        ("1", "output_throughput", 125.6, 251.2, "8 x H200"),
        ("1", "acceptance_length", None, 2.13, "hardware not stated"),
    ]
    assert table.rows[0][4] == "0.50"
    assert len(table.frame()) == 2


def test_without_a_preset_there_is_nothing_beside() -> None:
    assert published_tables([summary(None), summary("of another version")]) == ()


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("http://worker:9090", "http://worker:9090/metrics"),
        ("worker:9090/prometheus/metrics", "http://worker:9090/prometheus/metrics"),
    ],
)
def test_a_page_of_counters_is_a_whole_address(url: str, page: str) -> None:
    assert parse_access(None, (), 0, (url,)).metrics_urls == (page,)


@pytest.mark.parametrize("url", ["ftp://x", "http://user:word@x/metrics"])
def test_a_page_that_cannot_be_asked_is_a_usage_error(url: str) -> None:
    with pytest.raises(click.UsageError, match="--metrics-url"):
        parse_access(None, (), 0, (url,))


def test_checks_take_the_expected_acceptance_and_leave_sampling_alone() -> None:
    found = from_preset({"preset": "ling-3.1-flash", "extra_body": '{"provider": {"order": ["a"]}}'})
    assert (found["preset"], found["expect_acceptance"]) == ("ling-3.1-flash", 2.13)
    assert found["extra_body"] == {"provider": {"order": ["a"]}}
    assert from_preset({"preset": "ling-3.1-flash", "expect_acceptance": 3.0})["expect_acceptance"] == 3.0
    assert from_preset({"preset": None}) == {"extra_body": {}}


@pytest.mark.parametrize("text", ["{", "[1]", '{"temperature": 1}', '{"seed": 1, "min_p": 0}'])
def test_checks_refuse_sampling_in_the_extra_body(text: str) -> None:
    with pytest.raises(click.UsageError, match="--extra-body"):
        from_preset({"extra_body": text})


def test_only_checks_that_need_no_greedy_answers_are_sampled(capsys: pytest.CaptureFixture[str]) -> None:
    setting = CheckSetting(
        budget=CheckBudget(),
        material=Material(seed=0, count=len),
        seed=0,
        engine=None,
        endpoint_type="completions",
        sampled=sampled_fields("ling-3.1-flash"),
        extra_body={"provider": "a"},
    )
    assert sampling_of(setting, "mtp") == {"temperature": 1.0, "top_p": 0.95, "top_k": 20, "provider": "a"}
    assert sampling_of(setting, "eviction") == {"temperature": 0, "provider": "a"}
    assert "chat_template_kwargs" in sampling_of(replace(setting, endpoint_type="chat"), "mtp")
    info = TargetInfo(base_url="http://x", chosen_by="option", model="m", endpoint_type="chat")
    tell_checks_preset("ling-3.1-flash", ("mtp", "eviction", "stream"), info)
    assert "at temperature 0, because they need greedy answers: eviction, stream" in capsys.readouterr().err
