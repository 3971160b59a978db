"""Small whole records for the tests of the store."""

from __future__ import annotations

from harness.records import (
    SCHEMA_VERSION,
    CellInfo,
    Complete,
    CounterSample,
    HarnessHealth,
    Invoke,
    Outcome,
    RoundPlan,
    RunInfo,
    TargetInfo,
    TokenSource,
    Usage,
)
from workloads.plan import Phase


def run_info(run_id: str = "20261129T101112Z-agent-tiny-3fa9c1") -> RunInfo:
    return RunInfo(
        schema_version=SCHEMA_VERSION,
        run_id=run_id,
        command="sweep",
        argv=("sweep", "--concurrency", "1,8"),
        started_utc="2026-11-29T10:11:12Z",
        clock={"monotonic_ns": 5, "wall_ns": 1_764_411_072_000_000_000},
        versions={"ling-bench": "0.1.0"},
        host={"cpus": 2},
        target=TargetInfo(
            base_url="http://127.0.0.1:8000", chosen_by="option", model="tiny", endpoint_type="chat", max_model_len=4096
        ),
        seed=7,
        options={"concurrency": [1, 8]},
        goodput={"ttft": 500.0},
        notes={"image": "dev"},
    )


def round_plan(cell: str = "c1", round_index: int = 0) -> RoundPlan:
    return RoundPlan(
        round_index=round_index, cell=cell, generator="agent", generator_version=1, seed=7, spec={"n": 4}, digest="ab"
    )


def invoke(request_id: str, cell: str = "c1", step: str = "ask") -> Invoke:
    return Invoke(
        request_id=request_id,
        cell=cell,
        step=step,
        key=f"key-{request_id}",
        planned_ns=1_000,
        phase=Phase.MEASURE,
        session="s0",
        turn=2,
        route="chat",
        prompt_hash="00",
        parameters={"temperature": 0.0, "stop": ["a"], "nested": {"x": None}},
    )


def complete(request_id: str, event_count: int = 3) -> Complete:
    return Complete(
        request_id=request_id,
        outcome=Outcome.OK,
        http_status=200,
        sent_ns=2_000,
        first_token_ns=5_000_000,
        last_token_ns=9_000_000,
        end_ns=9_100_000,
        event_count=event_count,
        event_tokens=(1, 2, 1),
        first_event_tokens=1,
        output_tokens=4,
        output_tokens_source=TokenSource.USAGE,
        usage=Usage(prompt_tokens=100, completion_tokens=4, cached_tokens=0),
        finish_reason="length",
        text="grüße\r\n\x00",
        tool_calls=[{"name": "f", "arguments": "{}"}],
        extra={"timings": {"prompt_ms": 1.5}},
    )


def cell_info(cell: str = "c1") -> CellInfo:
    return CellInfo(
        cell=cell,
        workload="agent",
        concurrency=1,
        round_index=0,
        cache_mode="cold",
        nonce="n0",
        started_utc="2026-11-29T10:11:12Z",
        origin_ns=0,
        window_start_ns=1_000,
        window_end_ns=9_000_000,
        warmup_requests=0,
        sent=1,
        ok=1,
        refused=0,
        unknown=0,
        health=HarnessHealth(
            loop_lag_p50_ms=0.1,
            loop_lag_p99_ms=0.5,
            loop_lag_max_ms=1.0,
            send_delay_p50_ms=0.1,
            send_delay_p99_ms=0.2,
            cpu_share=0.3,
            achieved_concurrency=0.99,
            connections_asked=1,
            connections_open=1,
        ),
        counters=(CounterSample(at_ns=3, values={"vllm:prompt_tokens_total": 10.0}),),
    )
