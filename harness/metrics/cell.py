"""What every family of metrics is computed from: the measured requests of one cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.clock import NS_PER_S
from harness.records import CellInfo, Outcome, Record
from harness.stats.drafts import Drafts
from workloads.plan import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricOptions:
    """What the user may choose: objectives in milliseconds (`ttft`, `tpot`, `e2el`) and percentiles, 0 to 100."""

    goodput: Mapping[str, float] = field(default_factory=dict)
    percentiles: tuple[float, ...] = (50.0, 90.0, 99.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCell:
    """The requests of one cell that count.

    measured: all requests outside the warm-up. completed: those answered in full. warmup_requests: left out.
    duration_s: from the first planned start to the last event of a measured request; None if nothing was measured.
    info: the closing record, None in an unfinished cell.
    counted: what the server's counters say of drafts over the measured requests, None if they do not.
    """

    measured: tuple[Record, ...]
    completed: tuple[Record, ...]
    warmup_requests: int
    duration_s: float | None
    info: CellInfo | None
    options: MetricOptions
    counted: Drafts | None = None


def measured_cell(
    records: Sequence[Record], info: CellInfo | None, options: MetricOptions, counted: Drafts | None = None
) -> MeasuredCell:
    """Sort the requests of a cell, leaving out the warm-up."""
    measured = tuple(each for each in records if each.invoke.phase is Phase.MEASURE)
    return MeasuredCell(
        measured=measured,
        completed=tuple(each for each in measured if each.complete.outcome is Outcome.OK),
        warmup_requests=len(records) - len(measured),
        duration_s=_duration_s(measured, info),
        info=info,
        options=options,
        counted=counted,
    )


def _duration_s(measured: Sequence[Record], info: CellInfo | None) -> float | None:
    if info is not None and info.window_start_ns is not None and info.window_end_ns is not None:
        return (info.window_end_ns - info.window_start_ns) / NS_PER_S
    ends_ns = [end_ns for each in measured if (end_ns := _last_event_ns(each)) is not None]
    if not ends_ns:
        return None
    return (max(ends_ns) - min(each.invoke.planned_ns for each in measured)) / NS_PER_S


def _last_event_ns(record: Record) -> int | None:
    complete = record.complete
    return complete.last_token_ns if complete.last_token_ns is not None else complete.end_ns
