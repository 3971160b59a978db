"""What bound a cell, from the server's counters and the harness's own health."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.endpoint.counters import total
from harness.records import CellInfo, CounterSample, Metric

FULL_SHARE = 0.95
BUSY_HARNESS_CPU = 0.9
LATE_HARNESS_MS = 20.0
WAITING_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLoad:
    """What the server showed while a cell was measured; None where it shows nothing of the kind.

    running, waiting: highest of the samples. kv_usage, state_usage: highest share; state_usage is None for a model
    without recurrent states too. preempted: requests during the cell.
    bound: "harness", "memory", "scheduler slots", "compute" or "unknown".
    """

    running: float | None
    waiting: float | None
    kv_usage: float | None
    state_usage: float | None
    preempted: float | None
    bound: str

    def metrics(self) -> tuple[Metric, ...]:
        """The figures as metrics, `server_` before their names."""
        units = {"running": "requests", "waiting": "requests", "kv_usage": "share", "state_usage": "share"}
        named = {name: getattr(self, name) for name in (*units, "preempted")}
        return tuple(
            Metric(
                name=f"server_{name}",
                unit=units.get(name, "requests"),
                value=value,
                count=0 if value is None else 1,
                note="the server shows no such counter" if value is None else None,
            )
            for name, value in named.items()
        )


def server_load(info: CellInfo, engine: str | None) -> ServerLoad:
    """The server's load during a cell, and what bound it as far as that shows it."""
    samples = info.counters
    running, waiting, kv_usage = (_highest(samples, engine, name) for name in ("running", "waiting", "kv_usage"))
    state_usage = None if _highest(samples, engine, "state_slots") == 0 else _highest(samples, engine, "state_usage")
    preempted = _preempted(samples, engine)
    return ServerLoad(
        running=running,
        waiting=waiting,
        kv_usage=kv_usage,
        state_usage=state_usage,
        preempted=preempted,
        bound=_bound(info, engine, running, kv_usage, state_usage, preempted),
    )


def _bound(
    info: CellInfo,
    engine: str | None,
    running: float | None,
    kv_usage: float | None,
    state_usage: float | None,
    preempted: float | None,
) -> str:
    health = info.health
    late = health.loop_lag_p99_ms is not None and health.loop_lag_p99_ms > LATE_HARNESS_MS
    if late or (health.cpu_share is not None and health.cpu_share > BUSY_HARNESS_CPU):
        return "harness"
    if (preempted or 0) > 0 or any(usage is not None and usage >= FULL_SHARE for usage in (kv_usage, state_usage)):
        return "memory"
    if running is None:
        return "unknown"
    queued = [value for sample in info.counters if (value := _read(sample, engine, "waiting")) is not None]
    waits = sum(value > 0 for value in queued) >= WAITING_SHARE * len(queued) if queued else False
    if waits and running < info.concurrency:
        return "scheduler slots"
    return "compute" if running >= FULL_SHARE * info.concurrency else "unknown"


def _highest(samples: Sequence[CounterSample], engine: str | None, meaning: str) -> float | None:
    found = [value for sample in samples if (value := _read(sample, engine, meaning)) is not None]
    return max(found, default=None)


def _read(sample: CounterSample, engine: str | None, meaning: str) -> float | None:
    return None if engine is None else total(sample, engine, meaning)


def _preempted(samples: Sequence[CounterSample], engine: str | None) -> float | None:
    """Requests preempted between the first sample and the last.

    A counter that some samples lack stood at 0 in them. Where only a gauge of the last step is shown, its highest value
    is taken, which is the least there can have been.
    """
    if len(samples) < 2:
        return None
    counts = [_read(sample, engine, "preempted") for sample in samples]
    last = counts[-1]
    if last is not None:
        return last - (counts[0] if counts[0] is not None else 0.0)
    return _highest(samples, engine, "preempted_now")
