"""The closing record of a cell: counts, window, the harness's health, and what a reader has to be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.drive.health import SelfMeter
from harness.drive.spec import CellSpec
from harness.drive.tally import Tally
from harness.records import CellInfo, CounterSample, HarnessHealth, Outcome

LAG_LIMIT_MS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a cell went, apart from its requests.

    connections_asked / connections_open: 0 if it never came to measuring. ended_by: the limit that ended it, None if
    its plan did. cut_off: requests still in flight after the drain.
    """

    started_utc: str
    origin_ns: int
    connections_asked: int
    connections_open: int
    ended_by: str | None
    cut_off: int
    counters: Sequence[CounterSample]
    counters_error: str | None


def closing_record(spec: CellSpec, tally: Tally, meter: SelfMeter, ended: Ended) -> CellInfo:
    """What cell.json will say."""
    health = _health(tally, meter, ended)
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
        warnings=tuple(_warnings(spec, ended, health)),
        ended_by=ended.ended_by,
        context_tokens=spec.context_tokens,
        arrivals=spec.arrivals,
        request_rate=spec.request_rate,
    )


def _health(tally: Tally, meter: SelfMeter, ended: Ended) -> HarnessHealth:
    lag_p50_ms, lag_p99_ms, lag_max_ms = meter.lag_ms
    delay_p50_ms, delay_p99_ms = tally.send_delay_ms
    return HarnessHealth(
        loop_lag_p50_ms=lag_p50_ms,
        loop_lag_p99_ms=lag_p99_ms,
        loop_lag_max_ms=lag_max_ms,
        send_delay_p50_ms=delay_p50_ms,
        send_delay_p99_ms=delay_p99_ms,
        cpu_share=meter.cpu_share,
        achieved_concurrency=tally.achieved_concurrency,
        connections_asked=ended.connections_asked,
        connections_open=ended.connections_open,
    )


def _warnings(spec: CellSpec, ended: Ended, health: HarnessHealth) -> list[str]:
    warnings: list[str] = []
    if ended.ended_by == "tokens":
        warnings.append(f"the cell ended early: the next request might have passed its {spec.max_tokens} tokens")
    if ended.cut_off:
        warnings.append(f"{ended.cut_off} requests were still in flight after the drain and were cut off")
    if health.connections_open < health.connections_asked:
        warnings.append(f"only {health.connections_open} of {health.connections_asked} connections could be opened")
    if health.loop_lag_p99_ms is not None and health.loop_lag_p99_ms > LAG_LIMIT_MS:
        warnings.append(f"the harness itself was late: loop lag p99 {health.loop_lag_p99_ms:.1f} ms")
    return warnings
