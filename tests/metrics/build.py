"""Records built from a few numbers, for the tests of metrics and reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harness.records import (
    CellInfo,
    Complete,
    ErrorKind,
    HarnessHealth,
    Invoke,
    Outcome,
    Record,
    RequestError,
    TokenSource,
    Usage,
)
from workloads.plan import Phase

MS = 1_000_000
S = 1_000_000_000


def request(name: str, planned_ms: float = 0.0, phase: Phase = Phase.MEASURE) -> Invoke:
    return Invoke(
        request_id=name, cell="c1", step="ask", key=name, planned_ns=int(planned_ms * MS), phase=phase, route="chat"
    )


def answered(
    name: str,
    *,
    sent_ms: float = 0.0,
    events_ms: Sequence[float] = (100.0, 110.0, 120.0),
    event_tokens: tuple[int, ...] | None = None,
    output_tokens: int | None = 3,
    prompt_tokens: int | None = 50,
    cached_tokens: int | None = None,
    planned_ms: float | None = None,
    phase: Phase = Phase.MEASURE,
) -> Record:
    """An OK request; times in milliseconds on one axis."""
    times_ns = np.array([int(each * MS) for each in events_ms], dtype=np.int64)
    complete = Complete(
        request_id=name,
        outcome=Outcome.OK,
        http_status=200,
        sent_ns=int(sent_ms * MS),
        first_token_ns=int(times_ns[0]) if len(times_ns) else None,
        last_token_ns=int(times_ns[-1]) if len(times_ns) else None,
        end_ns=int(times_ns[-1]) + MS if len(times_ns) else int(sent_ms * MS) + MS,
        event_count=len(times_ns),
        event_tokens=event_tokens,
        first_event_tokens=None if event_tokens is None else event_tokens[0],
        output_tokens=output_tokens,
        output_tokens_source=None if output_tokens is None else TokenSource.USAGE,
        usage=Usage(prompt_tokens=prompt_tokens, completion_tokens=output_tokens, cached_tokens=cached_tokens),
        finish_reason="length",
    )
    invoke = request(name, sent_ms if planned_ms is None else planned_ms, phase)
    return Record(invoke=invoke, complete=complete, event_times_ns=times_ns)


def failed(
    name: str,
    kind: ErrorKind = ErrorKind.HTTP_STATUS,
    http_status: int | None = 503,
    outcome: Outcome = Outcome.REFUSED,
    sent_ms: float = 0.0,
) -> Record:
    """A request that went wrong, 5 ms after it was sent."""
    error = RequestError(kind=kind, message=f"message of {name}", http_status=http_status)
    complete = Complete(
        request_id=name,
        outcome=outcome,
        error=error,
        http_status=http_status,
        sent_ns=int(sent_ms * MS),
        end_ns=int((sent_ms + 5) * MS),
    )
    return Record(invoke=request(name, sent_ms), complete=complete)


def without_times(record: Record) -> Record:
    return replace(record, event_times_ns=None)


def info(concurrency: int = 1, *, window_s: tuple[float, float] | None = None, cell: str = "c1") -> CellInfo:
    return CellInfo(
        cell=cell,
        workload="agent",
        concurrency=concurrency,
        round_index=0,
        cache_mode="cold",
        nonce="n",
        started_utc="2026-11-29T10:11:12Z",
        origin_ns=0,
        window_start_ns=None if window_s is None else int(window_s[0] * S),
        window_end_ns=None if window_s is None else int(window_s[1] * S),
        warmup_requests=0,
        sent=1,
        ok=1,
        refused=0,
        unknown=0,
        health=HarnessHealth(
            loop_lag_p50_ms=0.1,
            loop_lag_p99_ms=0.9,
            loop_lag_max_ms=2.0,
            send_delay_p50_ms=0.2,
            send_delay_p99_ms=0.8,
            cpu_share=0.25,
            achieved_concurrency=float(concurrency),
            connections_asked=concurrency,
            connections_open=concurrency,
        ),
        warnings=("from the cell",),
    )
