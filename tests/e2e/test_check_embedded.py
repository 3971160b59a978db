"""`check`, `judge` and `repro` the way a user meets them, against the embedded engine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.commands import clean_environment, engine, lines, run_ling_bench, start_ling_bench


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checks")


@pytest.fixture(scope="module")
def healthy(workplace: Path) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """One run of cached-tokens against the embedded engine; its folder is the last line of stdout."""
    result = run_ling_bench("check", "cached-tokens", "--budget", "small", cwd=workplace)
    return workplace / result.stdout.splitlines()[-1], result


def test_a_healthy_engine_passes_with_exit_code_0(healthy: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    run, result = healthy
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("PASS")
    verdicts = json.loads((run / "verdicts.json").read_text())
    assert [(each["check"], each["verdict"]["status"]) for each in verdicts["checks"]] == [
        ("cached-tokens", "pass"),
        ("soundness", "pass"),
    ]
    assert verdicts["checks"][0]["verdict"]["details"]["step"] == 64


def test_the_cost_is_said_before_the_check_is_asked(healthy: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    _, result = healthy
    messages = result.stderr.splitlines()
    cost = next(number for number, line in enumerate(messages) if line.startswith("cost: cached-tokens"))
    first = next(number for number, line in enumerate(messages) if line.startswith("cached-tokens, round 1"))
    assert cost < first
    assert "requests" in messages[cost] and "tokens" in messages[cost] and "minutes" in messages[cost]


def test_everything_asked_is_on_record(healthy: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    run, _ = healthy
    cells = sorted(path.parent.name for path in run.glob("*/history.jsonl"))
    assert cells == ["cached-tokens-r0", "capabilities-r0"]
    invokes = [line for line in lines(run / "cached-tokens-r0" / "history.jsonl") if line["type"] == "invoke"]
    assert all(line["labels"] for line in invokes if line["step"] == "ask")
    assert len(list((run / "cached-tokens-r0" / "raw").iterdir())) == sum(line["step"] == "ask" for line in invokes)


def test_judging_the_run_again_says_the_same(
    workplace: Path, healthy: tuple[Path, subprocess.CompletedProcess[str]]
) -> None:
    run, first = healthy
    again = run_ling_bench("judge", str(run), cwd=workplace)
    assert again.returncode == 0
    assert again.stdout.splitlines()[:-1] == first.stdout.splitlines()[:-1]


def test_a_request_is_replayed_by_its_bundle(
    workplace: Path, healthy: tuple[Path, subprocess.CompletedProcess[str]]
) -> None:
    run, _ = healthy
    invokes = [line for line in lines(run / "cached-tokens-r0" / "history.jsonl") if line["type"] == "invoke"]
    twin = next(line for line in invokes if line.get("arm") == "twin")
    made = run_ling_bench("repro", str(run), str(twin["request_id"]), "--out", "bundle", cwd=workplace)
    assert made.returncode == 0, made.stderr
    steps = json.loads((workplace / "bundle" / "steps.json").read_text())["steps"]
    assert [step["of_interest"] for step in steps].count(True) == 1 and len(steps) > 4
    with engine() as url:
        replayed = subprocess.run(
            [sys.executable, "bundle/replay.py", "--base-url", url],
            cwd=workplace, env=clean_environment(), capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    finding = replayed.stdout.partition("<== the finding")[2]
    assert "cached tokens: then 0, now 0" in finding and "text: as then" in finding


def test_usage_errors_exit_2_before_anything_is_sent(workplace: Path) -> None:
    for arguments, words in (
        (["nonsense"], "no check is called nonsense"),
        (["--max-tokens-total", "0"], "--max-tokens-total"),
        (["eviction", "--base-url", "http://127.0.0.1:9"], "--exclusive-server"),
    ):
        result = run_ling_bench("check", *arguments, cwd=workplace)
        assert result.returncode == 2 and words in result.stderr
    assert run_ling_bench("repro", str(workplace), "x", cwd=workplace).returncode == 4


@pytest.mark.slow
def test_a_disturbing_check_in_a_larger_set_costs_nothing(workplace: Path) -> None:
    with engine() as url:
        limit = ("--budget", "small", "--max-tokens-total", "60000")
        result = run_ling_bench("check", "--base-url", url, *limit, cwd=workplace)
    assert result.returncode == 3, result.stderr
    assert "INCONCLUSIVE    eviction" in result.stdout and "--exclusive-server" in result.stdout
    run = workplace / result.stdout.splitlines()[-1]
    assert not list(run.glob("eviction-r*"))


def test_an_engine_that_reports_nothing_is_undecided_with_the_flag(workplace: Path) -> None:
    with engine("--no-cache-report") as url:
        result = run_ling_bench("check", "cached-tokens", "--base-url", url, "--budget", "small", cwd=workplace)
    assert result.returncode == 3
    assert "--enable-prompt-tokens-details" in " ".join(result.stdout.split())


def test_ctrl_c_keeps_what_was_asked_and_it_can_be_judged(workplace: Path) -> None:
    folder = workplace / "interrupted"
    folder.mkdir()
    with engine() as url:
        process = start_ling_bench("check", "cached-tokens", "--base-url", url, cwd=folder)
        deadline_s = time.monotonic() + 60
        while not list(folder.glob("results/*/cached-tokens-r0/raw/*")) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=60)
    assert process.returncode == 130
    (run,) = folder.glob("results/*")
    assert "ling-bench judge" in messages
    judged = run_ling_bench("judge", str(run), cwd=folder)
    assert judged.returncode == 3 and "interrupted" in judged.stdout
