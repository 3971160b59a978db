"""Wrong usage exits 2 before anything is sent; an endpoint that cannot be asked exits 4; a key is never shown."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

KEY = "sk-test-0123456789abcdef"


def ling_bench(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, as a user does."""
    clean = {k: v for k, v in os.environ.items() if k not in {"OPENAI_BASE_URL", "OPENAI_API_KEY"}}
    return subprocess.run(
        [sys.executable, "-m", "harness.cli.main", *arguments],
        cwd=cwd,
        env={**clean, **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--concurrency", ""], "is not a whole number"),
        (["--concurrency", "1,x"], "'x' is not a whole number"),
        (["--concurrency", "1", "--base-url", "ftp://host"], "http"),
        (["--concurrency", "1", "--extra-body", "{"], "--extra-body is not JSON"),
        (["--concurrency", "1", "--extra-body", '{"model": "x"}'], "may not set model"),
        (["--concurrency", "1", "--goodput", "speed:1"], "speed"),
        (["--concurrency", "1", "--note", "x"], "KEY=VALUE"),
        (["--concurrency", "1", "--tokenizer", "missing.json"], "--tokenizer"),
        (["--concurrency", "1", "--max-tokens-total", "10"], "--max-tokens-total"),
        (["--concurrency", "1", "--header", "no colon"], "Name: value"),
    ],
)
def test_wrong_usage_exits_2_and_names_the_option(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = ling_bench("sweep", "--dry-run", *arguments, cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_dry_run_prints_target_and_cost_and_leaves_nothing_behind(tmp_path: Path) -> None:
    result = ling_bench("sweep", "--concurrency", "1,8,32", "--dry-run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("target: the embedded engine (chosen because")
    assert "cost: 3 cells" in result.stdout
    assert not list(tmp_path.iterdir())


def test_an_unreachable_server_exits_4_with_advice(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    result = ling_bench("sweep", "--concurrency", "1", "--base-url", url, "--api-key", KEY, cwd=tmp_path)
    assert result.returncode == 4, result.stderr
    assert result.stderr.startswith(f"target: {url} (chosen by option --base-url)")
    assert "cannot reach" in result.stderr and "Is the server running" in result.stderr
    assert KEY not in result.stdout + result.stderr
    assert not list(tmp_path.iterdir())


def test_the_environment_chooses_the_target_when_no_option_does(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{closed_port()}/v1"
    result = ling_bench("sweep", "--concurrency", "1", cwd=tmp_path, env={"OPENAI_BASE_URL": url})
    assert result.returncode == 4
    assert "(chosen by environment OPENAI_BASE_URL)" in result.stderr.splitlines()[0]


def test_resuming_keeps_the_plan_of_the_run(tmp_path: Path) -> None:
    result = ling_bench("sweep", "--resume", ".", "--seed", "3", cwd=tmp_path)
    assert result.returncode == 2
    assert "leave --seed out" in result.stderr
