"""What bound a cell, from the server's counters and the harness's own health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.endpoint.counters import total
from harness.records import CellInfo, CounterSample, Metric

FULL_SHARE = 0.95
BUSY_HARNESS_CPU = 0.9
LATE_HARNESS_MS = 20.0
WAITING_SHARE = 0.5
PREEMPTIONS = ("vllm:num_preemptions_total", "sglang:num_retracted_reqs", "sglang:num_retractions_total")
STATE_SLOTS = ("sglang:mamba_usage", "vllm:mamba_cache_usage_perc")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLoad:
    """What the server showed while a cell was measured; None where it shows nothing of the kind.

    running, waiting: highest of the samples. kv_usage, state_usage: highest share. preempted: during the cell.
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
    state_usage = _highest_named(samples, STATE_SLOTS)
    preempted = _difference(samples, PREEMPTIONS)
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


def _named(values: Mapping[str, float], names: Sequence[str]) -> float | None:
    found = [value for key, value in values.items() if key.partition("{")[0] in names]
    return max(found, default=None)


def _highest_named(samples: Sequence[CounterSample], names: Sequence[str]) -> float | None:
    return max((value for each in samples if (value := _named(each.values, names)) is not None), default=None)


def _difference(samples: Sequence[CounterSample], names: Sequence[str]) -> float | None:
    found = [value for each in samples if (value := _named(each.values, names)) is not None]
    return found[-1] - found[0] if len(found) > 1 else None
