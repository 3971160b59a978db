"""`sweep --workers`: several processes ask what one would have asked, and one that dies is told of."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness.records import ErrorKind, Outcome
from harness.store import RunFolder, read_cell
from tests.e2e.commands import engine, run_ling_bench, start_ling_bench, sweep

SIZE = ("--num-prompts", "24", "--num-warmups", "2", "--output-len", "6", "--input-len", "300", "--ignore-eos")


def asked(run: Path) -> dict[str, tuple[str | None, str]]:
    """Key of each request to its prompt (the nonce is the run's own, so `--cache keep`) and outcome."""
    history = read_cell(RunFolder.open(run), next(iter(RunFolder.open(run).cells())))
    return {each.invoke.key: (each.invoke.prompt_hash, each.complete.outcome.value) for each in history.records}


def test_several_processes_ask_and_record_what_one_does(tmp_path: Path) -> None:
    with engine() as url:
        alone = sweep(url, "8", tmp_path, "--cache", "keep", *SIZE)
        shared = sweep(url, "8", tmp_path, "--cache", "keep", "--workers", "3", *SIZE)
    assert asked(alone) == asked(shared)
    [cell] = RunFolder.open(shared).cells()
    history = read_cell(RunFolder.open(shared), cell)
    assert {each.complete.extra["process"] for each in history.records} == {f"worker process {n}" for n in range(3)}
    info = history.info
    assert info is not None and info.ok == 24
    assert info.health.processes == 4 and info.health.connections_open == 8
    assert info.health.cpu_share is not None


def test_a_number_of_processes_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    result = run_ling_bench("sweep", "--workers", "none", "--dry-run", cwd=tmp_path)
    assert result.returncode == 2 and "--workers: 'none'" in result.stderr


def children(parent: int) -> list[int]:
    listing = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(parent)], capture_output=True, text=True)
    return [int(line.split()[0]) for line in listing.stdout.splitlines() if "workers.process" in line]


@pytest.mark.slow
def test_requests_of_a_process_that_is_killed_are_unknown_and_the_others_go_on(tmp_path: Path) -> None:
    with engine() as url:
        command = ("sweep", "--base-url", url, "--concurrency", "8", "--workers", "2", "--duration", "12", "--json")
        running = start_ling_bench(*command, "--output-len", "200", "--ignore-eos", cwd=tmp_path)
        while len(workers := children(running.pid)) < 2:
            time.sleep(0.1)
        history = tmp_path / "results"
        while not any(b'"complete"' in each.read_bytes() for each in history.glob("*/*/history.jsonl")):
            time.sleep(0.2)
        os.kill(workers[0], signal.SIGKILL)
        out, err = running.communicate(timeout=120)
    assert running.returncode == 4, err
    [cell] = json.loads(out)["cells"]
    assert any("worker process" in each and "ended early" in each for each in cell["warnings"])
    [run] = history.iterdir()
    records = read_cell(RunFolder.open(run), cell["cell"]).records
    died = [each for each in records if each.complete.error and each.complete.error.kind is ErrorKind.HARNESS_DIED]
    assert died and all(each.complete.outcome is Outcome.UNKNOWN for each in died)
    after = max(each.complete.end_ns or 0 for each in died)
    assert any(each.complete.outcome is Outcome.OK and each.invoke.planned_ns > after for each in records)
