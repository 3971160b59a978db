"""kill -9 of the harness at any moment: nothing sent is unaccounted for, and the run can be completed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.commands import clean_environment, engine, lines, run_ling_bench

LEVELS = "2,4"
ARGUMENTS = ("--num-prompts", "24", "--dataset-name", "random", "--random-input-len", "96", "--random-output-len", "8")


def start(url: str, cwd: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "harness.cli.main",
        "sweep",
        "--base-url",
        url,
        "--concurrency",
        LEVELS,
        *ARGUMENTS,
    ]
    return subprocess.Popen(
        command, cwd=cwd, env=clean_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def kill_after(process: subprocess.Popen[bytes], folder: Path, delay_s: float) -> None:
    """Kill `delay_s` after the run folder has appeared, so that every phase of a run is met."""
    deadline_s = time.monotonic() + 30
    while not list(folder.glob("results/*/run.json")) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    time.sleep(delay_s)
    process.kill()
    process.wait()


def accounted(run: Path) -> set[str]:
    """Ids that the run folder admits may have been sent: every invoke line, and every id reserved."""
    found: set[str] = set()
    for history in run.glob("*/history.jsonl"):
        for line in lines(history):
            if line["type"] == "invoke":
                found.add(str(line["request_id"]))
            elif line["type"] == "reserve":
                prefix, first = str(line["from"]).rsplit("-", 1)
                last = str(line["to"]).rsplit("-", 1)[1]
                found |= {f"{prefix}-{number}" for number in range(int(first), int(last) + 1)}
    return found


def kill_and_resume(url: str, log: Path, folder: Path, delay_s: float) -> None:
    process = start(url, folder)
    kill_after(process, folder, delay_s)
    (run,) = folder.glob("results/*")
    seen = {str(line["request_id"]) for line in lines(log)} if log.exists() else set()
    mine = {request_id for request_id in seen if request_id.startswith(run.name.rsplit("-", 1)[1])}
    assert mine <= accounted(run)
    report = run_ling_bench("report", str(run), cwd=folder)
    assert report.returncode == 0, report.stderr
    resumed = run_ling_bench("sweep", "--resume", str(run), cwd=folder)
    assert resumed.returncode == 0, resumed.stderr
    for cell in (run / "random-c002", run / "random-c004"):
        assert (cell / "cell.json").exists()
        for line in lines(cell / "history.jsonl"):
            usage = line.get("usage")
            if line["type"] == "complete" and isinstance(usage, dict):
                assert usage["cached_tokens"] < 64, "a cold request that was asked again was warm"


def one_after_another(tmp_path: Path, count: int) -> None:
    generator = random.Random(7)
    log = tmp_path / "received.jsonl"
    with engine("--request-log", str(log)) as url:
        for number in range(count):
            folder = tmp_path / f"kill-{number}"
            folder.mkdir()
            kill_and_resume(url, log, folder, generator.uniform(0.0, 1.5))


def test_a_killed_run_accounts_for_what_it_sent_and_is_completed(tmp_path: Path) -> None:
    one_after_another(tmp_path, 2)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fifty_kills(tmp_path: Path) -> None:
    one_after_another(tmp_path, 50)
