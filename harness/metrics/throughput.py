"""Requests and tokens per second over the whole cell, as vLLM's benchmark defines them."""

from __future__ import annotations

from harness.metrics.cell import MeasuredCell
from harness.metrics.tokens import input_tokens, output_tokens, token_sum
from harness.records import Metric

NOTHING_MEASURED = "nothing was measured"


def throughput_metrics(cell: MeasuredCell) -> tuple[Metric, ...]:
    """Completed and failed requests, the duration in seconds, and the rates over it.

    Only completed requests bring tokens. A rate is None if nothing was measured or nobody counted the tokens.
    """
    completed = len(cell.completed)
    measured = len(cell.measured)
    tokens_in, note_in = token_sum(cell, input_tokens, "input tokens")
    tokens_out, note_out = token_sum(cell, output_tokens, "output tokens")
    total = None if tokens_in is None or tokens_out is None else tokens_in + tokens_out
    notes = "; ".join(each for each in (note_in, note_out) if each is not None) or None
    return (
        Metric(name="completed", unit="requests", value=completed, count=measured),
        Metric(name="failed", unit="requests", value=measured - completed, count=measured),
        Metric(name="duration", unit="s", value=cell.duration_s, count=measured),
        rate(cell, "request_throughput", "requests/s", completed, None),
        rate(cell, "output_throughput", "tokens/s", tokens_out, note_out),
        rate(cell, "total_token_throughput", "tokens/s", total, notes),
    )


def rate(cell: MeasuredCell, name: str, unit: str, amount: int | None, note: str | None) -> Metric:
    """`amount` per second of the cell; None if the amount is not known or the cell has no duration."""
    if not cell.duration_s or amount is None:
        return Metric(name=name, unit=unit, value=None, count=0, note=note or NOTHING_MEASURED)
    return Metric(name=name, unit=unit, value=amount / cell.duration_s, count=len(cell.completed), note=note)
