"""How well an open load was offered: when requests were due, when there was room for them, when they were sent."""

from __future__ import annotations

from harness.clock import NS_PER_MS, NS_PER_S
from harness.metrics.cell import MeasuredCell
from harness.metrics.distribution import distribution
from harness.records import Metric, Record


def client_queue_ms(record: Record) -> float | None:
    """Due to room under the limit of requests in flight: waiting that the client itself imposed; None if not said."""
    released_ns = record.invoke.released_ns
    return None if released_ns is None else (released_ns - record.invoke.planned_ns) / NS_PER_MS


def schedule_slip_ms(record: Record) -> float | None:
    """Room to written: how late the harness itself was; None if the request was not written, or not said."""
    released_ns, sent_ns = record.invoke.released_ns, record.complete.sent_ns
    return None if released_ns is None or sent_ns is None else (sent_ns - released_ns) / NS_PER_MS


def schedule_metrics(cell: MeasuredCell) -> tuple[Metric, ...]:
    """Nothing in a closed loop; else offered rate, the client's queue and its slip over all measured requests."""
    if cell.info is None or cell.info.arrivals is None:
        return ()
    waits = {"client_queue": client_queue_ms, "schedule_slip": schedule_slip_ms}
    metrics: list[Metric] = [_offered(cell)]
    for name, wait in waits.items():
        values = [value for each in cell.measured if (value := wait(each)) is not None]
        metrics += distribution(f"{name}_ms", "ms", values, (*cell.options.percentiles, 100.0))
    return tuple(metrics)


def _offered(cell: MeasuredCell) -> Metric:
    """Requests due a second, over the span of their due times."""
    due_ns = sorted(each.invoke.planned_ns for each in cell.measured)
    span_ns = due_ns[-1] - due_ns[0] if due_ns else 0
    rate = (len(due_ns) - 1) * NS_PER_S / span_ns if span_ns else None
    note = None if span_ns else "all requests were due at once"
    return Metric(name="offered_request_rate", unit="requests/s", value=rate, count=len(due_ns), note=note)
