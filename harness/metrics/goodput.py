"""Goodput: completed requests that met every latency objective, per second, as vLLM's benchmark defines it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from harness.metrics.cell import MeasuredCell
from harness.metrics.latency import e2el_ms, tpot_ms, ttft_ms
from harness.metrics.throughput import rate
from harness.records import Metric, Record

OBJECTIVES = ("ttft", "tpot", "e2el")


def parse_goodput(items: Sequence[str]) -> Mapping[str, float]:
    """Objectives in milliseconds from words like "ttft:500"; one item may hold several, parted by spaces.

    Raises ValueError for an unknown name, a repeated one, or a value that is not a positive number.
    """
    objectives: dict[str, float] = {}
    for word in " ".join(items).split():
        name, colon, value = word.partition(":")
        if not colon:
            raise ValueError(f"{word!r} is not an objective; write NAME:MILLISECONDS, for example ttft:500")
        if name not in OBJECTIVES:
            raise ValueError(f"{name!r} is not one of {', '.join(OBJECTIVES)}")
        if name in objectives:
            raise ValueError(f"{name} is given twice")
        objectives[name] = _milliseconds(name, value)
    return objectives


def _milliseconds(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name}: {text!r} is not a positive number of milliseconds")
    return value


def meets(record: Record, objectives: Mapping[str, float]) -> bool:
    """Whether a completed request met every objective; an answer without tokens meets none.

    A single-event answer has no TPOT and so meets any TPOT objective.
    """
    first_ms, last_ms = ttft_ms(record), e2el_ms(record)
    if first_ms is None or last_ms is None:
        return False
    per_token_ms = tpot_ms(record)
    actual = {"ttft": first_ms, "e2el": last_ms, "tpot": 0.0 if per_token_ms is None else per_token_ms}
    return all(actual[name] <= limit_ms for name, limit_ms in objectives.items())


def goodput_metrics(cell: MeasuredCell) -> tuple[Metric, ...]:
    """Nothing without objectives; else the requests that met them, their rate, and their share of all measured."""
    objectives = cell.options.goodput
    if not objectives:
        return ()
    good = sum(meets(each, objectives) for each in cell.completed)
    measured = len(cell.measured)
    note = " ".join(f"{name}:{limit_ms:g}" for name, limit_ms in objectives.items())
    return (
        Metric(name="good_requests", unit="requests", value=good, count=measured, note=note),
        Metric(name="good_share", unit="share", value=good / measured if measured else None, count=measured, note=note),
        rate(cell, "request_goodput", "requests/s", good, note),
    )
