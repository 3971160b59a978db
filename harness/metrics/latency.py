"""Latencies of one request, and of a cell.

All times count from `sent_ns`, when the request was written to its socket, except the planned TTFT, which counts from
when the request was due and so includes the harness's and the connection's own delay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from harness.clock import NS_PER_MS
from harness.metrics.cell import MeasuredCell
from harness.metrics.distribution import distribution
from harness.records import Metric, Record

NO_VALUES_MS = np.empty(0, dtype=np.float64)


def ttft_ms(record: Record) -> float | None:
    """Sent to the first event with generated text, reasoning or a tool call; None if there was none."""
    return _between_ms(record.complete.sent_ns, record.complete.first_token_ns)


def planned_ttft_ms(record: Record) -> float | None:
    """When the request was due to its first event with generated tokens; None if there was none."""
    return _between_ms(record.invoke.planned_ns, record.complete.first_token_ns)


def e2el_ms(record: Record) -> float | None:
    """Sent to the last event with generated tokens; trailing usage and end marks do not count."""
    return _between_ms(record.complete.sent_ns, record.complete.last_token_ns)


def tpot_ms(record: Record) -> float | None:
    """(E2E - TTFT) / (output tokens - tokens of the first event); None if nothing came after the first event."""
    complete = record.complete
    after_first_ms = _between_ms(complete.first_token_ns, complete.last_token_ns)
    if after_first_ms is None or complete.output_tokens is None:
        return None
    first_tokens = 1 if complete.first_event_tokens is None else complete.first_event_tokens
    later_tokens = complete.output_tokens - first_tokens
    return after_first_ms / later_tokens if later_tokens > 0 else None


def inter_event_ms(record: Record) -> npt.NDArray[np.float64]:
    """Gaps between successive events with tokens, float64[events - 1]."""
    if record.event_times_ns is None or len(record.event_times_ns) < 2:
        return NO_VALUES_MS
    return np.diff(record.event_times_ns) / NS_PER_MS


def itl_ms(record: Record) -> npt.NDArray[np.float64]:
    """Each gap divided by the tokens of the later event, once for each of its tokens, float64[tokens after the first].

    An event whose tokens were not counted has one.
    """
    gaps_ms = inter_event_ms(record)
    if record.complete.event_tokens is None or not len(gaps_ms):
        return gaps_ms
    tokens = np.asarray(record.complete.event_tokens[1:], dtype=np.int64)
    repeated: npt.NDArray[np.float64] = np.repeat(gaps_ms / np.maximum(tokens, 1), tokens)
    return repeated


def latency_metrics(cell: MeasuredCell) -> tuple[Metric, ...]:
    """Distributions over the completed requests of a cell (of their gaps, for ITL and inter-event latency)."""
    percentiles = cell.options.percentiles
    per_request = {"ttft": ttft_ms, "planned_ttft": planned_ttft_ms, "tpot": tpot_ms, "e2el": e2el_ms}
    metrics: list[Metric] = []
    for name, latency in per_request.items():
        values = [value for each in cell.completed if (value := latency(each)) is not None]
        metrics += distribution(f"{name}_ms", "ms", values, percentiles)
    note = _missing_times_note(cell)
    inter_event = distribution("inter_event_ms", "ms", all_inter_event_ms(cell.completed), percentiles, note)
    if _one_token_each(cell.completed):
        itl = tuple(replace(each, name=each.name.replace("inter_event", "itl")) for each in inter_event)
    else:
        itl = distribution("itl_ms", "ms", all_itl_ms(cell.completed), percentiles, note)
    return (*metrics, *itl, *inter_event)


def all_itl_ms(records: Sequence[Record]) -> npt.NDArray[np.float64]:
    """`itl_ms` of many requests one after another."""
    if _one_token_each(records):
        return all_inter_event_ms(records)
    return np.concatenate([NO_VALUES_MS, *map(itl_ms, records)])


def _one_token_each(records: Sequence[Record]) -> bool:
    return all(each.complete.event_tokens is None for each in records)


def all_inter_event_ms(records: Sequence[Record]) -> npt.NDArray[np.float64]:
    """`inter_event_ms` of many requests one after another, taken in one go."""
    times_ns = [each.event_times_ns for each in records if each.event_times_ns is not None and len(each.event_times_ns)]
    if not times_ns:
        return NO_VALUES_MS
    gaps_ms = np.diff(np.concatenate(times_ns)) / NS_PER_MS
    between = np.cumsum([len(each) for each in times_ns])[:-1] - 1
    return np.delete(gaps_ms, between)


def _between_ms(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else (end_ns - start_ns) / NS_PER_MS


def _missing_times_note(cell: MeasuredCell) -> str | None:
    missing = sum(each.complete.event_count > 1 and each.event_times_ns is None for each in cell.completed)
    return f"token times were not kept for {missing} of {len(cell.completed)} requests" if missing else None
