"""Rounds of one point become a mean with its interval."""

from __future__ import annotations

from typing import Any

from harness.metrics import CellSummary
from harness.records import Metric
from harness.report.rounds import over_rounds


def cell(value: float | None, turn: int, **more: Any) -> CellSummary:
    fields: dict[str, Any] = {
        "cell": f"c{turn}", "workload": "agent", "concurrency": 8, "cache_mode": "cold", "finished": True,
        "failures": (), "warnings": (), "round_index": turn, **more,
    }  # fmt: skip
    metric = Metric(name="output_throughput", unit="tokens/s", value=value, count=1)
    return CellSummary(metrics=(metric,), **fields)


def test_three_rounds_have_a_mean_and_an_interval() -> None:
    (point,) = over_rounds([cell(value, turn) for turn, value in enumerate((99.0, 100.0, 101.0))])
    assert isinstance(point, dict)
    found = point["output_throughput"]
    assert point["rounds"] == 3 and found["mean"] == 100 and found["low"] < 99 < 101 < found["high"]


def test_two_rounds_have_a_mean_and_say_what_is_missing() -> None:
    (point,) = over_rounds([cell(99.0, 0), cell(101.0, 1)])
    assert isinstance(point, dict)
    assert point["output_throughput"] == {"mean": 100, "low": None, "high": None} and "3 rounds" in str(point["note"])


def test_cells_of_other_loads_unfinished_ones_and_missing_values_are_not_mixed_in() -> None:
    assert over_rounds([cell(1.0, 0), cell(2.0, 1, concurrency=9), cell(3.0, 2, finished=False)]) == []
    (point,) = over_rounds([cell(1.0, 0), cell(None, 1)])
    assert isinstance(point, dict) and "output_throughput" not in point
