from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.records import CounterSample, ErrorKind, Outcome
from harness.store import CellWriter, RunFolder, StoreError, read_cell, read_raw, uncollected
from tests.store import samples

TIMES_NS = [5_000_000, 7_000_000, 9_000_000]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunFolder]:
    with RunFolder.create(tmp_path, samples.run_info()) as run:
        yield run


def ask(writer: CellWriter) -> str:
    request_id = writer.next_request_id()
    writer.invoke(samples.invoke(request_id))
    writer.complete(samples.complete(request_id), TIMES_NS, raw=b"data: x\n\n")
    return request_id


def history(run: RunFolder, cell: str = "c1") -> Path:
    return run.path / cell / "history.jsonl"


def test_a_cell_comes_back_as_it_was_written(run: RunFolder) -> None:
    with run.cell("c1") as writer:
        ids = [ask(writer) for _ in range(300)]
        writer.counters(CounterSample(at_ns=3, values={"a": 1.0}))
        writer.finish(samples.cell_info())
    cell = read_cell(run, "c1")
    assert [record.invoke.request_id for record in cell.records] == ids
    record = cell.records[17]
    assert record.invoke == samples.invoke(ids[17])
    assert record.complete == replace(samples.complete(ids[17]), times_offset=17 * 3, raw_kept=True)
    assert record.event_times_ns is not None
    assert record.event_times_ns.tolist() == TIMES_NS
    assert cell.info == samples.cell_info()
    assert cell.counters == (CounterSample(at_ns=3, values={"a": 1.0}),)
    assert read_raw(run, "c1", ids[17]) == b"data: x\n\n"
    assert (cell.gap, cell.torn_lines, cell.unreadable_lines, cell.orphan_completes) == ((), 0, 0, 0)
    assert (run.path / "c1" / "times.u32").stat().st_size == 300 * 3 * 4


def test_a_step_that_is_no_request_is_kept_apart(run: RunFolder) -> None:
    with run.cell("c1") as writer:
        writer.invoke(samples.invoke(writer.next_request_id(), step="marker"))
    cell = read_cell(run, "c1")
    assert cell.records == ()
    assert [step.step for step in cell.steps] == ["marker"]


def test_raw_is_none_where_it_was_not_kept(run: RunFolder) -> None:
    with run.cell("c1") as writer:
        request_id = writer.next_request_id()
        writer.invoke(samples.invoke(request_id))
        writer.complete(samples.complete(request_id))
    (record,) = read_cell(run, "c1").records
    assert record.complete.raw_kept is False
    assert record.event_times_ns is None
    assert read_raw(run, "c1", request_id) is None


def test_an_id_is_reserved_on_disk_before_it_is_handed_out(run: RunFolder) -> None:
    writer = run.cell("c1")
    for _ in range(1_000):
        request_id = writer.next_request_id()
        lines = [orjson.loads(line) for line in history(run).read_bytes().splitlines()]
        reserved = {f"{line['prefix']}{n}" for line in lines for n in range(line["from"], line["to"])}
        assert request_id in reserved


def test_a_request_without_answer_is_unknown(run: RunFolder) -> None:
    with run.cell("c1") as writer:
        writer.invoke(samples.invoke(writer.next_request_id()))
    (record,) = read_cell(run, "c1").records
    assert record.complete.outcome is Outcome.UNKNOWN
    assert record.complete.error is not None
    assert record.complete.error.kind is ErrorKind.HARNESS_DIED


def test_a_cell_closed_in_order_has_no_gap(run: RunFolder) -> None:
    with run.cell("c1") as writer:
        ask(writer)
    cell = read_cell(run, "c1")
    assert cell.info is None
    assert cell.gap == ()


def test_times_that_do_not_fit_the_answer_are_refused(run: RunFolder) -> None:
    with run.cell("c1") as writer:
        with pytest.raises(ValueError, match="2 times, 3 events"):
            writer.complete(samples.complete("a"), [1, 2])
        with pytest.raises(ValueError, match="without the time"):
            writer.complete(replace(samples.complete("a"), sent_ns=None), TIMES_NS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(data=st.data())
def test_a_history_cut_anywhere_is_readable_and_declares_its_gap(tmp_path_factory: object, data: st.DataObject) -> None:
    assert isinstance(tmp_path_factory, pytest.TempPathFactory)
    with RunFolder.create(tmp_path_factory.mktemp("cut"), samples.run_info()) as run:
        with run.cell("c1") as writer:
            ids = [ask(writer) for _ in range(5)]
        whole = history(run).read_bytes()
        history(run).write_bytes(whole[: data.draw(st.integers(min_value=0, max_value=len(whole) - 2))])
        cell = read_cell(run, "c1")
    seen = {record.invoke.request_id for record in cell.records}
    assert cell.torn_lines <= 1
    assert cell.unreadable_lines == 0
    if cell.gap or seen:
        assert seen | set(cell.gap) >= set(ids)
    assert not seen & set(cell.gap)


def test_a_sidecar_cut_short_loses_times_and_says_how_many(run: RunFolder) -> None:
    with run.cell("c1") as writer:
        ask(writer)
        ask(writer)
    times = run.path / "c1" / "times.u32"
    times.write_bytes(times.read_bytes()[:18])
    cell = read_cell(run, "c1")
    assert cell.lost_times == 1
    assert cell.records[0].event_times_ns is not None
    assert cell.records[1].event_times_ns is None


def test_lines_of_other_versions_are_counted_not_lost(run: RunFolder) -> None:
    with run.cell("c1") as writer:
        ask(writer)
    with history(run).open("ab") as file:
        file.write(b'{"type":"weather","sky":"blue"}\n{"type":"invoke","request_id":3}\nnot json\n[]\n')
        file.write(b'{"type":"complete","request_id":"stranger","outcome":"ok"}\n')
    cell = read_cell(run, "c1")
    assert len(cell.records) == 1
    assert (cell.unknown_lines, cell.unreadable_lines, cell.orphan_completes) == (1, 3, 1)


def test_a_missing_history_is_a_clear_error(run: RunFolder) -> None:
    with pytest.raises(StoreError, match=r"history\.jsonl cannot be read"):
        read_cell(run, "c99")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_stops_the_cell_with_a_clear_message(run: RunFolder) -> None:
    writer = run.cell("c1")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, writer._history._fd)
    with pytest.raises(StoreError, match="the disk is full"):
        for _ in range(10_000):
            ask(writer)
            writer._spool.flush()
    with pytest.raises(StoreError, match="the disk is full"):
        writer.invoke(samples.invoke("x"))
    run._spool = None


KILLED = """
import sys
from pathlib import Path
from harness.store import RunFolder
from tests.store import samples
from tests.store.test_cell import TIMES_NS
run = RunFolder.create(Path(sys.argv[1]), samples.run_info())
writer = run.cell("c1")
while True:
    request_id = writer.next_request_id()
    sys.stdout.write(request_id + "\\n")
    sys.stdout.flush()
    writer.invoke(samples.invoke(request_id))
    writer.complete(samples.complete(request_id), TIMES_NS)
"""


def test_kill_9_leaves_every_used_id_in_the_records_or_the_gap(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        used = [process.stdout.readline().decode().strip() for _ in range(2_000)]
        os.kill(process.pid, signal.SIGKILL)
        used += [line.decode().strip() for line in process.stdout if line.endswith(b"\n")]
    run = RunFolder.open(tmp_path / samples.run_info().run_id)
    cell = read_cell(run, "c1")
    seen = {record.invoke.request_id for record in cell.records}
    assert set(used) - {""} <= seen | set(cell.gap)
    assert cell.info is None
    with run, run.cell("c1") as writer:
        assert writer.next_request_id() not in used


def test_the_collector_rests_while_records_are_read_and_works_again_after() -> None:
    with uncollected():
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
