"""What went wrong, and how well the harness itself kept up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.metrics.cell import MeasuredCell
from harness.records import HarnessHealth, Metric, Outcome, Record, RequestError

UNFINISHED = "the cell is unfinished"
HEALTH_UNITS = {
    "loop_lag_p50_ms": "ms",
    "loop_lag_p99_ms": "ms",
    "loop_lag_max_ms": "ms",
    "send_delay_p50_ms": "ms",
    "send_delay_p99_ms": "ms",
    "cpu_share": "CPU s/s",
    "gc_share": "s/s",
    "gc_max_ms": "ms",
    "backlog_p99_bytes": "bytes",
    "backlog_max_bytes": "bytes",
    "achieved_concurrency": "requests",
    "connections_asked": "connections",
    "connections_open": "connections",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Failed requests with the same reason; `example` is the message of the first."""

    reason: str
    count: int
    example: str


def failure_groups(measured: Sequence[Record]) -> tuple[FailureGroup, ...]:
    """The failed requests by reason, most frequent first."""
    errors = [each.complete.error for each in measured if each.complete.error is not None]
    counts = Counter(_reason(error) for error in errors)
    examples = {_reason(error): error.message for error in reversed(errors)}
    return tuple(
        FailureGroup(reason=reason, count=count, example=examples[reason]) for reason, count in counts.most_common()
    )


def load_metrics(cell: MeasuredCell) -> tuple[Metric, ...]:
    """Outcomes and retries of the measured requests, the warm-up left out, and the harness's health."""
    outcomes = Counter(each.complete.outcome for each in cell.measured)
    measured = len(cell.measured)
    retries = sum(each.complete.retries for each in cell.measured)
    return (
        Metric(name="refused", unit="requests", value=outcomes[Outcome.REFUSED], count=measured),
        Metric(name="unknown", unit="requests", value=outcomes[Outcome.UNKNOWN], count=measured),
        Metric(name="retries", unit="requests", value=retries, count=measured),
        Metric(name="warmup_requests", unit="requests", value=cell.warmup_requests, count=cell.warmup_requests),
        *_health_metrics(None if cell.info is None else cell.info.health, measured),
    )


def _reason(error: RequestError) -> str:
    return error.kind.value if error.http_status is None else f"{error.kind.value} {error.http_status}"


def _health_metrics(health: HarnessHealth | None, measured: int) -> list[Metric]:
    metrics = []
    for name, unit in HEALTH_UNITS.items():
        value = None if health is None else getattr(health, name)
        note = UNFINISHED if health is None else None
        metrics.append(Metric(name=name, unit=unit, value=value, count=measured, note=note))
    return metrics
