"""Figures of each class of a cell."""

from __future__ import annotations

from dataclasses import replace

from harness.metrics import CellSummary, MetricOptions, summarise_cell
from harness.records import Record
from tests.metrics.build import answered, failed
from workloads.plan import Phase


def of_class(record: Record, name: str) -> Record:
    return replace(record, invoke=replace(record.invoke, labels={"class": name}))


def summary(records: list[Record]) -> CellSummary:
    return summarise_cell(records, None, MetricOptions(goodput={"ttft": 200}), cell="c1")


def test_each_class_has_its_own_latencies_and_the_rates_add_up() -> None:
    fast = [of_class(answered(f"f{at}", events_ms=(100, 110, 120)), "chat") for at in range(3)]
    slow = [of_class(answered("s", events_ms=(1_000, 1_500, 2_000), cached_tokens=25), "agent")]
    lost = [of_class(failed("x"), "agent")]
    cell = summary([*fast, *slow, *lost])
    agent, chat = cell.classes
    assert (agent.name, chat.name) == ("agent", "chat")
    assert (agent.value("median_ttft_ms"), chat.value("median_ttft_ms")) == (1_000, 100)
    assert (agent.value("median_tpot_ms"), chat.value("median_tpot_ms")) == (500, 10)
    assert (agent.value("failed"), chat.value("failed")) == (1, 0)
    assert (agent.value("cached_share"), chat.value("cached_share")) == (0.5, None)
    assert (agent.value("good_share"), chat.value("good_share")) == (0, 1)
    for rate in ("request_throughput", "output_throughput", "total_token_throughput"):
        assert sum(each.value(rate) or 0 for each in cell.classes) == cell.value(rate)
    in_json = cell.as_json()["classes"]
    assert isinstance(in_json, list) and in_json[1]["class"] == "chat" and in_json[1]["completed"] == 3


def test_requests_without_a_class_have_no_classes() -> None:
    warm = of_class(answered("w", phase=Phase.WARMUP), "chat")
    assert summary([warm, answered("a")]).classes == ()
