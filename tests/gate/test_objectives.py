"""Objectives: absolute bounds, bounds against an earlier run, their noise, and what was not measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from harness.checks.verdict import Status
from harness.gate.objectives import judge_objectives
from harness.gate.profile import Objective, Profile, Slo
from harness.gate.row import Row
from harness.metrics import CellSummary
from harness.records import Metric

CELL = "objective-chat-agent-c0008"


def cell(values: Mapping[str, float | None], name: str = CELL, *, finished: bool = True) -> CellSummary:
    metrics = tuple(Metric(name=key, unit="ms", value=value, count=1) for key, value in values.items())
    return CellSummary(
        cell=name, workload="agent", concurrency=8, cache_mode="cold", finished=finished, metrics=metrics, failures=(),
        warnings=(),
    )  # fmt: skip


def row(slo: Slo | None, values: Mapping[str, float | None], baseline: Any = None, **more: Any) -> Row:
    slos = () if slo is None else (slo,)
    profile = Profile(name="p", objectives=(Objective(name="chat", slos=slos, **more),))
    full = {"completed": 10.0, "failed": 0.0, **values}
    return judge_objectives(profile, [cell(full)], baseline)[0]


@pytest.mark.parametrize(
    ("value", "low", "high", "status"),
    [
        (90.0, 80.0, 120.0, Status.PASS),
        (110.0, 95.0, 130.0, Status.SUSPECT),
        (110.0, 105.0, 130.0, Status.FAIL),
        (110.0, None, None, Status.FAIL),
        (None, None, None, Status.INCONCLUSIVE),
    ],
)
def test_an_upper_bound(value: float | None, low: float | None, high: float | None, status: Status) -> None:
    values = {"p99_ttft_ms": value, "p99_ttft_ms_low": low, "p99_ttft_ms_high": high}
    assert row(Slo(metric="p99_ttft_ms", max=100), values).status is status


def test_a_lower_bound() -> None:
    slo = Slo(metric="output_throughput", min=50)
    assert row(slo, {"output_throughput": 50.0}).status is Status.PASS
    assert row(slo, {"output_throughput": 49.0}).status is Status.FAIL


def test_against_a_baseline_the_noise_of_both_counts() -> None:
    slo = Slo(metric="mean_ttft_ms", max_of_baseline=1.1)
    before = [cell({"mean_ttft_ms": 100.0, "mean_ttft_ms_low": 90.0, "mean_ttft_ms_high": 110.0})]

    def now(value: float) -> Row:
        ends = {"mean_ttft_ms_low": 0.95 * value, "mean_ttft_ms_high": 1.05 * value}
        return row(slo, {"mean_ttft_ms": value, **ends}, before)

    assert now(109.0).status is Status.PASS
    assert now(115.0).status is Status.SUSPECT
    assert now(140.0).status is Status.FAIL
    assert "the baseline has 100" in now(140.0).reason


def test_without_a_baseline_a_relative_bound_is_undecided_and_says_how() -> None:
    slo = Slo(metric="mean_ttft_ms", max_of_baseline=1.1, max=50)
    assert "--baseline" in row(slo, {"mean_ttft_ms": 40.0}).reason
    assert row(slo, {"mean_ttft_ms": 40.0}).status is Status.INCONCLUSIVE
    assert row(slo, {"mean_ttft_ms": 60.0}).status is Status.FAIL
    assert "no such cell" in row(slo, {"mean_ttft_ms": 40.0}, [cell({"mean_ttft_ms": 1.0}, "other")]).reason


def test_failed_requests_miss_the_objective_unless_allowed() -> None:
    assert row(None, {"failed": 1.0}).status is Status.FAIL
    assert row(None, {"completed": 0.0, "failed": 5.0}).status is Status.FAIL
    assert row(Slo(metric="completed", min=1), {"failed": 1.0}, max_failed_share=0.1).status is Status.PASS


def test_what_was_not_measured_is_undecided() -> None:
    profile = Profile(name="p", objectives=(Objective(name="chat", slos=(Slo(metric="completed", min=1),)),))
    never = judge_objectives(profile, [], None)[0]
    assert never.status is Status.INCONCLUSIVE and never.reason.startswith("not run")
    unfinished = [cell({"completed": 5.0, "failed": 0.0}, finished=False)]
    begun = judge_objectives(profile, unfinished, None)[0]
    assert begun.status is Status.INCONCLUSIVE and begun.reason.startswith("not measured")
    assert judge_objectives(profile, [cell({"completed": 5.0}, "objective-chatty-x")], None)[0].status is (
        Status.INCONCLUSIVE
    )


def test_a_cell_that_a_limit_of_the_run_cut_short_is_undecided() -> None:
    slo = Slo(metric="completed", min=1)
    own = Objective(name="chat", slos=(slo,))
    timed = Objective(name="chat", slos=(slo,), sweep={"duration_s": 5.0})
    made = [cell({"completed": 5.0, "failed": 0.0})]

    def status(objective: Objective, ended_by: str) -> Status | None:
        return judge_objectives(Profile(name="p", objectives=(objective,)), made, None, {CELL: ended_by})[0].status

    assert status(own, "tokens") is Status.INCONCLUSIVE
    assert status(own, "duration") is Status.INCONCLUSIVE
    assert status(timed, "duration") is Status.PASS
