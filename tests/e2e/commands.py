"""Run ling-bench and servers as processes of their own, the way a user meets them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

UNSET = {"OPENAI_BASE_URL", "OPENAI_API_KEY"}


def clean_environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    """The environment without anything that would choose a target, and with single-threaded BLAS."""
    base = {name: value for name, value in os.environ.items() if name not in UNSET}
    return {**base, "OPENBLAS_NUM_THREADS": "1", **(extra or {})}


def run_ling_bench(
    *arguments: str, cwd: Path, timeout_s: float = 200, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "harness.cli.main", *arguments],
        cwd=cwd,
        env=clean_environment(env),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def start_ling_bench(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """Start one command that the test will interrupt; Ctrl-C reaches it even where the tests run in the background."""
    return subprocess.Popen(
        [sys.executable, "-m", "harness.cli.main", *arguments],
        cwd=cwd,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@contextlib.contextmanager
def engine(*arguments: str) -> Iterator[str]:
    """The embedded engine on a free port for as long as the block lasts."""
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.reference", "--port", "0", "--exit-with-parent", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=clean_environment(),
    )
    try:
        assert process.stdout is not None
        yield str(json.loads(process.stdout.readline())["listening"])
    finally:
        process.terminate()
        process.wait(10)


def sweep(base_url: str, levels: str, cwd: Path, *more: str) -> Path:
    """One sweep that must succeed; returns its run folder."""
    result = run_ling_bench("sweep", "--base-url", base_url, "--concurrency", levels, *more, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return cwd / result.stdout.splitlines()[-1]


def cells(run: Path) -> dict[int, dict[str, object]]:
    """The cells of a run's summary by concurrency."""
    return {cell["concurrency"]: cell for cell in json.loads((run / "summary.json").read_text())["cells"]}


def lines(path: Path) -> list[dict[str, object]]:
    """The objects of a JSON-lines file; a torn last line is left out."""
    found = []
    for line in path.read_text().split("\n"):
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


def arguments_with(levels: Sequence[int]) -> str:
    return ",".join(str(level) for level in levels)
