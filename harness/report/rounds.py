"""Cells that were measured in several rounds, as one: mean and interval over the rounds."""

from __future__ import annotations

from collections.abc import Sequence

from harness.metrics import CellSummary
from harness.metrics.intervals import FEWEST_ROUNDS, rounds_interval
from workloads.plan import Json

OVER_ROUNDS = (
    "request_throughput",
    "output_throughput",
    "steady_output_throughput",
    "request_goodput",
    "mean_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "p99_tpot_ms",
    "mean_e2el_ms",
    "p99_e2el_ms",
    "cached_share",
)


def over_rounds(cells: Sequence[CellSummary]) -> list[Json]:
    """One object for each point with more than one finished round: its load, mean and interval of the main metrics.

    low and high are the ends of a 95% interval; None for fewer than three rounds.
    """
    points: dict[tuple[object, ...], list[CellSummary]] = {}
    for cell in cells:
        if cell.finished:
            key = (cell.workload, cell.cache_mode, cell.context_tokens, cell.concurrency, cell.arrivals)
            points.setdefault(key, []).append(cell)
    return [_point(alike) for alike in points.values() if len(alike) > 1]


def _point(cells: Sequence[CellSummary]) -> dict[str, Json]:
    first = cells[0]
    metrics: dict[str, Json] = {}
    for name in OVER_ROUNDS:
        values = [value for cell in cells if (value := cell.value(name)) is not None]
        if len(values) == len(cells):
            interval = rounds_interval(values)
            metrics[name] = {
                "mean": sum(values) / len(values),
                "low": None if interval is None else interval.low,
                "high": None if interval is None else interval.high,
            }
    return {
        "workload": first.workload,
        "context_tokens": first.context_tokens,
        "concurrency": first.concurrency,
        "arrivals": first.arrivals,
        "rounds": len(cells),
        "note": None if len(cells) >= FEWEST_ROUNDS else f"an interval needs {FEWEST_ROUNDS} rounds",
        **metrics,
    }
