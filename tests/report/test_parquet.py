from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from harness.metrics.latency import ttft_ms
from harness.report.parquet import ROWS_AT_ONCE, write_parquet
from harness.store import RunFolder, read_cell
from tests.report.synthetic import write_run


def test_every_request_is_a_row_that_says_what_its_record_says(tmp_path: Path) -> None:
    run = RunFolder.open(write_run(tmp_path, levels=(1, 8)))
    records = [each for cell in run.cells() for each in read_cell(run, cell).records]
    assert write_parquet(run, tmp_path / "run.parquet") == len(records) < ROWS_AT_ONCE
    rows = pq.read_table(tmp_path / "run.parquet").to_pylist()
    assert [row["request_id"] for row in rows] == [each.invoke.request_id for each in records]
    for row, record in zip(rows, records, strict=True):
        times_ns = record.event_times_ns
        assert row["event_times_ns"] == (None if times_ns is None else times_ns.tolist())
        assert row["ttft_ms"] == ttft_ms(record)
        assert row["error"] == (None if record.complete.error is None else record.complete.error.kind.value)
        assert row["output_tokens"] == record.complete.output_tokens


def test_a_cell_without_requests_gives_no_row(tmp_path: Path) -> None:
    run = RunFolder.open(write_run(tmp_path, levels=(), requests=0))
    assert write_parquet(run, tmp_path / "run.parquet") == 0
    assert pq.read_table(tmp_path / "run.parquet").num_rows == 0
