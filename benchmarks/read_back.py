"""How long a large run takes to be written, read back and reported, and in how much memory.

``python -m benchmarks.read_back --requests 1000000 --tokens 100 --folder DIR``
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from harness.drive.soundness import judge_soundness
from harness.records import (
    SCHEMA_VERSION,
    CellInfo,
    Complete,
    HarnessHealth,
    Invoke,
    Outcome,
    RunInfo,
    TargetInfo,
    TokenSource,
    Usage,
)
from harness.report.build import build_report
from harness.report.derive import load_run
from harness.store import CellWriter, RunFolder
from workloads.plan import Phase

T = TypeVar("T")
CONCURRENCY = 1_024
NS_PER_MS = 1_000_000


def write_run(folder: Path, requests: int, tokens: int, cells: int) -> Path:
    """A run of so many requests, an equal part of them in each cell."""
    with RunFolder.create(folder, _info()) as run:
        for index in range(cells):
            name = f"random-c{CONCURRENCY:04}-r{index}"
            with run.cell(name) as history:
                _write_cell(history, name, requests // cells, tokens)
        return run.path


def _write_cell(history: CellWriter, cell: str, requests: int, tokens: int) -> None:
    chance = random.Random(1)
    noise = np.random.default_rng(1)
    now_ns = start_ns = 1_000_000_000_000
    for number in range(requests):
        now_ns += int(chance.expovariate(1 / (2 * NS_PER_MS)))
        request_id = history.next_request_id()
        gaps_ns = noise.normal(20 * NS_PER_MS, NS_PER_MS, tokens).clip(0).astype(np.int64)
        gaps_ns[0] += 80 * NS_PER_MS
        times_ns = now_ns + np.cumsum(gaps_ns)
        history.invoke(_invoke(request_id, cell, number, now_ns))
        history.complete(_complete(request_id, now_ns, times_ns), times_ns)
    history.finish(_cell_info(cell, requests, start_ns, now_ns))


def _invoke(request_id: str, cell: str, number: int, planned_ns: int) -> Invoke:
    return Invoke(
        request_id=request_id,
        cell=cell,
        step="ask",
        key=f"s{number}/0",
        planned_ns=planned_ns,
        phase=Phase.MEASURE,
        session=f"s{number}",
        turn=0,
        route="chat",
        prompt_hash="0" * 64,
        parameters={"model": "m", "max_tokens": 100, "stream": True, "temperature": 0.0},
        released_ns=planned_ns,
    )


def _complete(request_id: str, sent_ns: int, times_ns: np.ndarray) -> Complete:  # type: ignore[type-arg]
    return Complete(
        request_id=request_id,
        outcome=Outcome.OK,
        http_status=200,
        sent_ns=sent_ns,
        first_token_ns=int(times_ns[0]),
        last_token_ns=int(times_ns[-1]),
        end_ns=int(times_ns[-1]),
        event_count=len(times_ns),
        first_event_tokens=1,
        output_tokens=len(times_ns),
        output_tokens_source=TokenSource.USAGE,
        usage=Usage(prompt_tokens=1_000, completion_tokens=len(times_ns), cached_tokens=512),
        finish_reason="length",
        text="a few words " * 8,
        extra={"connection_reused": True},
    )


def _cell_info(cell: str, requests: int, start_ns: int, end_ns: int) -> CellInfo:
    return CellInfo(
        cell=cell,
        workload="random",
        concurrency=CONCURRENCY,
        round_index=0,
        cache_mode="keep",
        nonce=None,
        started_utc="2026-01-01T00:00:00+00:00",
        origin_ns=start_ns,
        window_start_ns=start_ns,
        window_end_ns=end_ns,
        warmup_requests=0,
        sent=requests,
        ok=requests,
        refused=0,
        unknown=0,
        health=HarnessHealth(
            loop_lag_p50_ms=0.1,
            loop_lag_p99_ms=0.5,
            loop_lag_max_ms=1.0,
            send_delay_p50_ms=0.1,
            send_delay_p99_ms=0.5,
            cpu_share=0.3,
            achieved_concurrency=float(CONCURRENCY),
            connections_asked=CONCURRENCY,
            connections_open=CONCURRENCY,
        ),
    )


def _info() -> RunInfo:
    return RunInfo(
        schema_version=SCHEMA_VERSION,
        run_id="read-back",
        command="sweep",
        argv=(),
        started_utc="2026-01-01T00:00:00+00:00",
        clock={},
        versions={},
        host={},
        target=TargetInfo(base_url="http://127.0.0.1:1", chosen_by="option", model="m", endpoint_type="chat"),
        seed=0,
        options={},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--cells", type=int, default=20)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--keep", action="store_true", help="read the run that is there already")
    options = parser.parse_args()
    path = options.folder / "read-back"
    if not options.keep:
        path = _timed("write", lambda: write_run(options.folder, options.requests, options.tokens, options.cells))
    with RunFolder.open(path) as run:
        data = _timed("read and measure", lambda: load_run(run))
        _timed("soundness", lambda: judge_soundness(run, data.histories))
    _timed("report", lambda: build_report([data], options.folder / "report"))
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


def _timed(what: str, work: Callable[[], T]) -> T:
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    result = work()
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    print(f"{what}: {cpu_s:.1f} CPU s in {wall_s:.1f} s", flush=True)
    return result


if __name__ == "__main__":
    main()
