"""Runs with known costs, written through the store, for the tests of comparisons."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.drive import cell_name
from harness.records import CounterSample, Record
from harness.report.compare.sides import Side, measured_side
from harness.store import RunFolder
from tests.metrics.build import MS, answered, info
from tests.store.samples import round_plan, run_info
from workloads.plan import Json

OUTPUT_TOKENS = 17
BLOCK = 64
OPTIONS: Mapping[str, Json] = {
    "sampling": {"temperature": 0.0}, "num_warmups": 0, "cache": "cold", "endpoint_type": "chat",
    "metric_percentiles": [50, 90, 99],
}  # fmt: skip


def write_side(
    result_dir: Path,
    token: str,
    *,
    tpot_ms: Callable[[int], float] = lambda context: 10.0,
    ttft_ms: float = 100.0,
    contexts: Sequence[int] = (2_048,),
    levels: Sequence[int] = (8,),
    rounds: int = 2,
    sessions: int = 24,
    turns: int = 2,
    noise: float = 0.1,
    cached: int | None = 600,
    digest: str = "ab",
    options: Mapping[str, Json] = {},
    acceptance: float | None = None,
    gauge_bytes: tuple[float, float] | None = None,
    model: str = "tiny",
    output_tokens: int = OUTPUT_TOKENS,
    arrivals: str | None = None,
) -> Path:
    """One run. noise: sigma of each latency's logarithm. gauge_bytes: (a sequence, a token) that the server holds."""
    base = run_info(f"20261129T101112Z-agent-{model}-{token}")
    target = replace(base.target, model=model, engine="vllm")
    with RunFolder.create(result_dir, replace(base, target=target, options={**OPTIONS, **options})) as run:
        for context in contexts:
            for level in levels:
                for turn in range(rounds):
                    name = cell_name("agent", level, context, turn)
                    plan = replace(round_plan(name, turn), concurrency=level, context_tokens=context, digest=digest)
                    run.plan_round(plan)
                    rng = np.random.default_rng([zlib.crc32(token.encode()), context, level, turn])
                    records = _records(rng, context, level, sessions, turns, tpot_ms(context), ttft_ms, noise, cached,
                                       output_tokens)  # fmt: skip
                    _write(run, name, records, level, context, turn, acceptance, gauge_bytes, arrivals)
    return run.path


def side(path: Path, letter: str = "A") -> Side:
    with RunFolder.open(path) as run:
        return measured_side(letter, run)


def _records(
    rng: np.random.Generator, context: int, level: int, sessions: int, turns: int, tpot_ms: float, ttft_ms: float,
    noise: float, cached: int | None, output_tokens: int,
) -> list[Record]:  # fmt: skip
    free_ms = np.zeros(level)
    records = []
    for number in range(sessions):
        slot = int(free_ms.argmin())
        for turn in range(turns):
            start_ms = float(free_ms[slot])
            first_ms = start_ms + ttft_ms * float(rng.lognormal(0, noise))
            gap_ms = tpot_ms * float(rng.lognormal(0, noise))
            events_ms = first_ms + gap_ms * np.arange(output_tokens)
            key = f"measure.{number:05d}.{turn:03d}"
            record = answered(
                key,
                sent_ms=start_ms,
                events_ms=events_ms.tolist(),
                output_tokens=output_tokens,
                prompt_tokens=context,
                cached_tokens=None if cached is None else min(cached, context) * (turn > 0),
            )
            prompt = f'{{"prompt": "{key}-{"x" * context}"}}'.encode()
            invoke = replace(
                record.invoke, session=f"measure.{number:05d}", turn=turn, expected_prompt_tokens=context,
                prompt_hash=hashlib.sha256(prompt).hexdigest(), note=prompt.decode(),
            )  # fmt: skip
            records.append(replace(record, invoke=invoke))
            free_ms[slot] = float(events_ms[-1]) + 1
    return records


def _write(
    run: RunFolder, name: str, records: Sequence[Record], level: int, context: int, turn: int,
    acceptance: float | None, gauge_bytes: tuple[float, float] | None,
    arrivals: str | None,
) -> None:  # fmt: skip
    end_ns = max(each.complete.last_token_ns or 0 for each in records)
    counters = _counters(records, end_ns, acceptance, gauge_bytes)
    with run.cell(name) as writer:
        for record in records:
            request_id = writer.next_request_id()
            assert record.invoke.prompt_hash is not None and record.invoke.note is not None
            run.prompt(record.invoke.prompt_hash, record.invoke.note.encode())
            writer.invoke(replace(record.invoke, request_id=request_id, cell=name, note=None))
            writer.complete(replace(record.complete, request_id=request_id), record.event_times_ns)
        closing = info(level, window_s=(0.0, end_ns / (1_000 * MS)), cell=name)
        writer.finish(
            replace(
                closing,
                round_index=turn,
                context_tokens=context,
                warnings=(),
                counters=tuple(counters),
                arrivals=arrivals,
            )
        )


def _counters(
    records: Sequence[Record], end_ns: int, acceptance: float | None, gauge_bytes: tuple[float, float] | None
) -> list[CounterSample]:
    """Samples a hundred times a cell: verify steps with their accepted drafts, and bytes held by what is running."""
    if acceptance is None and gauge_bytes is None:
        return []
    samples = []
    for number in range(101):
        at_ns = number * end_ns // 100
        running = [
            each for each in records if (each.complete.first_token_ns or 0) < at_ns < (each.complete.last_token_ns or 0)
        ]
        values = {"vllm:num_requests_running": float(len(running))}
        if acceptance is not None:
            values["vllm:spec_decode_num_drafts_total"] = 50.0 * number
            values["vllm:spec_decode_num_accepted_tokens_total"] = 50.0 * number * (acceptance - 1)
        if gauge_bytes is not None:
            held = sum(
                gauge_bytes[0] + gauge_bytes[1] * BLOCK * math.ceil(_tokens(each, at_ns) / BLOCK) for each in running
            )
            values["vllm:kv_cache_usage_perc"] = held / 1e9
            values[f'vllm:cache_config_info{{block_size="{BLOCK}",kv_cache_memory_bytes="1000000000"}}'] = 1.0
        samples.append(CounterSample(at_ns=at_ns, values=values))
    return samples


def _tokens(record: Record, at_ns: int) -> float:
    complete = record.complete
    assert complete.first_token_ns is not None and complete.last_token_ns is not None and complete.usage is not None
    share = (at_ns - complete.first_token_ns) / (complete.last_token_ns - complete.first_token_ns)
    return (complete.usage.prompt_tokens or 0) + (complete.output_tokens or 0) * share
