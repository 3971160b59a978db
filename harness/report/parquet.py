"""Requests of a run as one Parquet file, for analysis elsewhere: a row each, with its latencies and token times."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.metrics.latency import e2el_ms, planned_ttft_ms, tpot_ms, ttft_ms
from harness.records import Record
from harness.store import RunFolder, read_cell

ROWS_AT_ONCE = 65_536
HOW_TO_INSTALL = "Parquet needs pyarrow; it comes with: pip install 'ling-bench[parquet]'"


class NoParquet(Exception):
    """pyarrow is not installed."""


def write_parquet(run: RunFolder, path: Path) -> int:
    """Write every request of `run`, cell after cell, with zstd; returns the number of rows.

    Times are monotonic nanoseconds as in the run folder, event_times_ns included (null where they were not kept).

    Raises:
        NoParquet: pyarrow is not installed.
        StoreError: a cell cannot be read.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise NoParquet(HOW_TO_INSTALL) from None
    schema = _schema(pa)
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for cell in run.cells():
            for batch in _batches(read_cell(run, cell).records):
                writer.write_table(_table(pa, schema, cell, batch))
                rows += len(batch)
    return rows


def _batches(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    iterator = iter(records)
    while batch := tuple(itertools.islice(iterator, ROWS_AT_ONCE)):
        yield batch


def _schema(pa: Any) -> Any:
    """Names and types of the columns; every column but the first five may be null."""
    kinds = {
        pa.string(): ("cell", "request_id", "phase", "outcome", "key", "session", "arm", "prompt_hash", "error",
                      "error_message", "finish_reason", "output_tokens_source", "text", "reasoning"),
        pa.int64(): ("planned_ns", "sent_ns", "first_token_ns", "last_token_ns", "end_ns", "turn", "http_status",
                     "prompt_tokens", "cached_tokens", "output_tokens", "retries"),
        pa.float64(): ("ttft_ms", "planned_ttft_ms", "tpot_ms", "e2el_ms"),
        pa.list_(pa.int64()): ("event_times_ns",),
    }  # fmt: skip
    return pa.schema([(name, kind) for kind, names in kinds.items() for name in names])


def _table(pa: Any, schema: Any, cell: str, records: Sequence[Record]) -> Any:
    rows = [_row(cell, each) for each in records]
    columns = [
        _times_column(pa, records)
        if field.name == "event_times_ns"
        else pa.array([r[field.name] for r in rows], field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _times_column(pa: Any, records: Sequence[Record]) -> Any:
    """The token times of all rows at once, not as Python numbers."""
    lengths = [0 if each.event_times_ns is None else len(each.event_times_ns) for each in records]
    kept = [each.event_times_ns for each in records if each.event_times_ns is not None]
    values = np.concatenate(kept) if kept else np.empty(0, np.int64)
    missing = pa.array([each.event_times_ns is None for each in records])
    return pa.ListArray.from_arrays(
        pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)), pa.array(values), mask=missing
    )


def _row(cell: str, record: Record) -> dict[str, object]:
    invoke, complete = record.invoke, record.complete
    usage, error, source = complete.usage, complete.error, complete.output_tokens_source
    return {
        "cell": cell,
        "request_id": invoke.request_id,
        "phase": invoke.phase.value,
        "outcome": complete.outcome.value,
        "key": invoke.key,
        "session": invoke.session,
        "arm": invoke.arm,
        "prompt_hash": invoke.prompt_hash,
        "error": None if error is None else error.kind.value,
        "error_message": None if error is None else error.message,
        "finish_reason": complete.finish_reason,
        "output_tokens_source": None if source is None else source.value,
        "text": complete.text,
        "reasoning": complete.reasoning,
        "planned_ns": invoke.planned_ns,
        "sent_ns": complete.sent_ns,
        "first_token_ns": complete.first_token_ns,
        "last_token_ns": complete.last_token_ns,
        "end_ns": complete.end_ns,
        "turn": invoke.turn,
        "http_status": complete.http_status,
        "prompt_tokens": None if usage is None else usage.prompt_tokens,
        "cached_tokens": None if usage is None else usage.cached_tokens,
        "output_tokens": complete.output_tokens,
        "retries": complete.retries,
        "ttft_ms": ttft_ms(record),
        "planned_ttft_ms": planned_ttft_ms(record),
        "tpot_ms": tpot_ms(record),
        "e2el_ms": e2el_ms(record),
    }
