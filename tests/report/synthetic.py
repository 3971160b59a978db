"""A run with plausible figures, written through the store, for the tests of the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.records import Outcome, Record, RunInfo
from harness.store import CellWriter, RunFolder
from tests.metrics.build import MS, answered, failed, info
from tests.store.samples import round_plan, run_info
from workloads.plan import Phase

LEVELS = (1, 8, 32)


def write_run(
    result_dir: Path,
    *,
    run: RunInfo | None = None,
    levels: Sequence[int] = LEVELS,
    unfinished: Sequence[int] = (),
    failures: int = 2,
    cached: bool = True,
    requests: int = 96,
    event_tokens: bool = True,
    classes: Sequence[str] = (),
) -> Path:
    """Write a run with a cell per level; `requests` 0 makes cells of failures only. classes: taken in turn."""
    with RunFolder.create(result_dir, run if run is not None else run_info()) as folder:
        for level in levels:
            name = f"c{level}"
            folder.plan_round(replace(round_plan(name), concurrency=level))
            records = cell_records(level, requests, failures, cached, event_tokens)
            if classes:
                records = [_labelled(each, classes[at % len(classes)]) for at, each in enumerate(records)]
            with folder.cell(name) as writer:
                _write_cell(writer, records, finished=level not in unfinished, level=level)
    return folder.path


def cell_records(
    level: int, requests: int, failures: int, cached: bool = True, event_tokens: bool = True
) -> list[Record]:
    """Requests of a closed loop whose latencies grow with the level."""
    rng = np.random.default_rng(level)
    free_ms = np.arange(level) * 10.0
    records = [failed(f"f{index}", sent_ms=float(index)) for index in range(failures)]
    for index in range(requests + 1):
        slot = int(free_ms.argmin())
        start_ms = float(free_ms[slot])
        ttft_ms = float(rng.lognormal(np.log(40 + 9 * level), 0.4))
        gaps_ms = rng.lognormal(np.log(6 + 0.5 * level), 0.3, size=23)
        events_ms = start_ms + ttft_ms + np.concatenate([[0.0], np.cumsum(gaps_ms)])
        tokens = tuple(int(each) for each in rng.integers(1, 3, size=24)) if event_tokens else None
        prompt = int(rng.integers(800, 2_000))
        records.append(
            answered(
                f"r{index}",
                sent_ms=start_ms + 0.2,
                planned_ms=start_ms,
                events_ms=events_ms.tolist(),
                event_tokens=tokens,
                output_tokens=24 if tokens is None else sum(tokens),
                prompt_tokens=prompt,
                cached_tokens=int(prompt * 0.9) if cached else None,
                phase=Phase.WARMUP if index == 0 else Phase.MEASURE,
            )
        )
        free_ms[slot] = float(events_ms[-1]) + 5
    return records


def _labelled(record: Record, name: str) -> Record:
    return replace(record, invoke=replace(record.invoke, labels={"class": name}))


def _write_cell(writer: CellWriter, records: Sequence[Record], *, finished: bool, level: int) -> None:
    for record in records:
        request_id = writer.next_request_id()
        writer.invoke(replace(record.invoke, request_id=request_id))
        if not finished and record is records[-1]:
            continue
        times_ns = None if record.complete.outcome is not Outcome.OK else record.event_times_ns
        writer.complete(replace(record.complete, request_id=request_id), times_ns)
    if finished:
        ends_ns = [each.complete.last_token_ns for each in records if each.complete.last_token_ns is not None]
        window_s = (0.0, max(ends_ns) / (1_000 * MS)) if ends_ns else None
        writer.finish(replace(info(level, window_s=window_s, cell=f"c{level}"), warnings=()))
