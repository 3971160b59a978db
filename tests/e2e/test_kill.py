"""kill -9 of the harness at any moment: nothing sent is unaccounted for, and the run can be completed."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness.records import Outcome
from harness.store import RunFolder, read_cell
from tests.e2e.commands import engine, lines, run_ling_bench, start_ling_bench

LEVELS = "2,4"
ARGUMENTS = ("--num-prompts", "24", "--dataset-name", "random", "--random-input-len", "96", "--random-output-len", "8")


def start(url: str, cwd: Path) -> subprocess.Popen[str]:
    return start_ling_bench("sweep", "--base-url", url, "--concurrency", LEVELS, *ARGUMENTS, cwd=cwd)


def wait_for_run(folder: Path) -> None:
    deadline_s = time.monotonic() + 30
    while not list(folder.glob("results/*/run.json")) and time.monotonic() < deadline_s:
        time.sleep(0.01)


def kill_after(process: subprocess.Popen[str], folder: Path, delay_s: float) -> None:
    """Kill `delay_s` after the run folder has appeared, so that every phase of a run is met."""
    wait_for_run(folder)
    time.sleep(delay_s)
    process.kill()
    process.communicate()


def accounted(run: RunFolder) -> set[str]:
    """Ids that the run folder admits may have been sent: every invoke line, and the gap it declares."""
    histories = [read_cell(run, cell) for cell in (*run.cells(), *run.aborted_cells())]
    return {record.invoke.request_id for each in histories for record in each.records} | {
        request_id for each in histories for request_id in each.gap
    }


def seen_by(log: Path, run: RunFolder) -> set[str]:
    """Ids of this run that reached the server."""
    token = run.path.name.rsplit("-", 1)[1]
    ids = {str(line["id"]) for line in lines(log)} if log.exists() else set()
    return {request_id for request_id in ids if request_id.startswith(token)}


def assert_complete_and_cold(run: RunFolder) -> None:
    assert len(run.cells()) == 2
    for cell in run.cells():
        assert run.is_finished(cell)
        for record in read_cell(run, cell).records:
            assert record.complete.outcome is Outcome.OK
            usage = record.complete.usage
            assert usage is not None and usage.cached_tokens is not None
            assert usage.cached_tokens < 64, "a cold request that was asked again was warm"


def kill_and_resume(url: str, log: Path, folder: Path, delay_s: float, *, report: bool) -> None:
    process = start(url, folder)
    kill_after(process, folder, delay_s)
    (path,) = folder.glob("results/*")
    with RunFolder.open(path) as run:
        assert seen_by(log, run) <= accounted(run)
    if report:
        drawn = run_ling_bench("report", str(path), cwd=folder)
        assert drawn.returncode == 0, drawn.stderr
    resumed = run_ling_bench("sweep", "--resume", str(path), cwd=folder)
    assert resumed.returncode == 0, resumed.stderr
    with RunFolder.open(path) as run:
        assert seen_by(log, run) <= accounted(run)
        assert_complete_and_cold(run)


def one_after_another(tmp_path: Path, count: int) -> None:
    generator = random.Random(7)
    log = tmp_path / "received.jsonl"
    with engine("--request-log", str(log)) as url:
        for number in range(count):
            folder = tmp_path / f"kill-{number}"
            folder.mkdir()
            kill_and_resume(url, log, folder, generator.uniform(0.0, 1.5), report=number % 5 == 0)


def test_ctrl_c_exits_130_and_leaves_a_run_to_complete(tmp_path: Path) -> None:
    with engine() as url:
        process = start(url, tmp_path)
        wait_for_run(tmp_path)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130, err
        (path,) = tmp_path.glob("results/*")
        assert f"ling-bench sweep --resume results/{path.name}" in err and "Traceback" not in err
        assert run_ling_bench("report", str(path), cwd=tmp_path).returncode == 0
        with RunFolder.open(path) as run:
            assert not run.aborted_cells() and all(not read_cell(run, cell).gap for cell in run.cells())
        assert run_ling_bench("sweep", "--resume", str(path), cwd=tmp_path).returncode == 0


def test_a_killed_run_accounts_for_what_it_sent_and_is_completed(tmp_path: Path) -> None:
    one_after_another(tmp_path, 2)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_fifty_kills(tmp_path: Path) -> None:
    one_after_another(tmp_path, 50)
