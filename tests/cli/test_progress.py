from __future__ import annotations

import pytest

from harness.cli import progress
from harness.cli.live import LiveLatencies
from harness.cli.progress import CellProgress
from harness.clock import NS_PER_MS
from harness.drive import CellSpec
from harness.records import Complete, ErrorKind, Invoke, Outcome, RequestError
from workloads.plan import Phase

SPEC = CellSpec(cell="random-c0008", workload="random", concurrency=8, seed=0)


def asked(phase: Phase = Phase.MEASURE) -> Invoke:
    return Invoke(request_id="1", cell=SPEC.cell, step="ask", key="1", planned_ns=0, phase=phase)


def answered(
    ttft_ms: int, tpot_ms: int = 20, process: str | None = None, error: RequestError | None = None
) -> Complete:
    first_ns = ttft_ms * NS_PER_MS
    return Complete(
        request_id="1",
        outcome=Outcome.OK if error is None else Outcome.UNKNOWN,
        error=error,
        sent_ns=0,
        first_token_ns=first_ns,
        last_token_ns=first_ns + 10 * tpot_ms * NS_PER_MS,
        first_event_tokens=1,
        output_tokens=11,
        extra={} if process is None else {"process": process},
    )


def test_processes_are_merged_and_their_spread_is_told() -> None:
    live = LiveLatencies()
    for ttft_ms, process in ((50, "a"), (50, "a"), (200, "b")):
        live.add(asked(), answered(ttft_ms, process=process))
    assert live.shown() == "TTFT 49.9/49.9 ms, TPOT 19.9/19.9 ms"
    assert live.spread() == "TTFT p50 of 2 processes 49.9 to 198 ms"


def test_a_failed_request_has_no_latency_and_one_process_no_spread() -> None:
    live = LiveLatencies()
    live.add(asked(), answered(500, error=RequestError(kind=ErrorKind.DISCONNECTED, message="gone")))
    assert live.shown() == ""
    live.add(asked(), answered(50))
    assert live.spread() == ""


def test_a_line_tells_tokens_a_second_and_percentiles_while_the_cell_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s[0])
    told = CellProgress()
    told.cell_started(SPEC, 4)
    told.request_finished(asked(Phase.WARMUP), answered(900))
    told.request_finished(asked(), answered(50))
    assert capsys.readouterr().err == ""
    now_s[0] = 10.0
    told.request_finished(asked(), answered(50))
    told_then = "2/4 requests, 2.2 tok/s, 0 failed, TTFT 49.9/49.9 ms, TPOT 19.9/19.9 ms, about 10 s left"
    assert capsys.readouterr().err.strip() == f"random, concurrency 8: {told_then}"
