"""The closing record of a cell: counts, window, the harness's health, and what a reader has to be told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.drive.health import MeterReading
from harness.drive.spec import CellSpec
from harness.drive.tally import Tally
from harness.drive.witness import counter_warnings
from harness.records import CellInfo, CounterSample, HarnessHealth, Outcome
from workloads.plan import Json

LAG_LIMIT_MS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a cell went, apart from its requests.

    connections_asked / connections_open: 0 if it never came to measuring. ended_by: the limit that ended it, None if
    its plan did. cut_off: requests still in flight after the drain. readings: of each process of the harness, the
    first its own. troubles: what became of processes that ended early.
    """

    started_utc: str
    origin_ns: int
    connections_asked: int
    connections_open: int
    ended_by: str | None
    cut_off: int
    counters: Sequence[CounterSample]
    counters_error: str | None
    readings: Sequence[MeterReading]
    troubles: Sequence[str] = ()
    clock_error_ms: float | None = None


def closing_record(spec: CellSpec, tally: Tally, ended: Ended) -> CellInfo:
    """What cell.json will say."""
    health = _health(tally, ended)
    return CellInfo(
        cell=spec.cell,
        workload=spec.workload,
        concurrency=spec.concurrency,
        round_index=spec.round_index,
        cache_mode=spec.cache_mode,
        nonce=spec.nonce,
        started_utc=ended.started_utc,
        origin_ns=ended.origin_ns,
        window_start_ns=tally.window_start_ns,
        window_end_ns=tally.window_end_ns,
        warmup_requests=tally.warmup_requests,
        sent=tally.measured,
        ok=tally.outcomes[Outcome.OK],
        refused=tally.outcomes[Outcome.REFUSED],
        unknown=tally.outcomes[Outcome.UNKNOWN],
        health=health,
        counters=tuple(ended.counters),
        counters_error=ended.counters_error,
        retries=tally.retries,
        unparsed_events=tally.unparsed_events,
        warnings=(*_warnings(spec, ended, health), *counter_warnings(ended.counters, tally.own)),
        ended_by=ended.ended_by,
        context_tokens=spec.context_tokens,
        cold_start=_cold_start(spec),
        arrivals=spec.arrivals,
        request_rate=spec.request_rate,
    )


def _cold_start(spec: CellSpec) -> Mapping[str, Json] | None:
    """What was done before the cell, else its nonce."""
    if spec.cold_start is not None:
        return spec.cold_start
    return {"by": "nonce"} if spec.nonce is not None else None


def _health(tally: Tally, ended: Ended) -> HarnessHealth:
    """Of several processes the worst counts: it is the one that spoils figures."""
    delay_p50_ms, delay_p99_ms = tally.send_delay_ms
    return HarnessHealth(
        loop_lag_p50_ms=_worst(each.lag_p50_ms for each in ended.readings),
        loop_lag_p99_ms=_worst(each.lag_p99_ms for each in ended.readings),
        loop_lag_max_ms=_worst(each.lag_max_ms for each in ended.readings),
        send_delay_p50_ms=delay_p50_ms,
        send_delay_p99_ms=delay_p99_ms,
        cpu_share=_worst(each.cpu_share for each in ended.readings),
        achieved_concurrency=tally.achieved_concurrency,
        connections_asked=ended.connections_asked,
        connections_open=ended.connections_open,
        processes=len(ended.readings),
        clock_error_ms=ended.clock_error_ms,
        gc_share=_worst(each.gc_share for each in ended.readings),
        gc_max_ms=_worst(each.gc_max_ms for each in ended.readings),
        backlog_p99_bytes=_worst(each.backlog_p99_bytes for each in ended.readings),
        backlog_max_bytes=_worst(each.backlog_max_bytes for each in ended.readings),
    )


def _worst(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _warnings(spec: CellSpec, ended: Ended, health: HarnessHealth) -> list[str]:
    warnings: list[str] = [*ended.troubles]
    if ended.ended_by == "tokens":
        warnings.append(f"the cell ended early: the next request might have passed its {spec.max_tokens} tokens")
    if ended.cut_off:
        warnings.append(f"{ended.cut_off} requests were still in flight after the drain and were cut off")
    if health.connections_open < health.connections_asked:
        warnings.append(f"only {health.connections_open} of {health.connections_asked} connections could be opened")
    if health.loop_lag_p99_ms is not None and health.loop_lag_p99_ms > LAG_LIMIT_MS:
        warnings.append(f"the harness itself was late: loop lag p99 {health.loop_lag_p99_ms:.1f} ms")
    return warnings
