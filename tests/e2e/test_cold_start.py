"""A sweep whose cells begin on a flushed cache, and one whose server cannot be flushed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.commands import engine, run_ling_bench

SMALL = ("--concurrency", "1", "--num-prompts", "2", "--num-warmups", "1", "--output-len", "8", "--turns", "1")


def cold_starts(run: Path) -> list[dict[str, object]]:
    return [json.loads(path.read_text())["cold_start"] for path in sorted(run.glob("*/cell.json"))]


@pytest.mark.slow
def test_a_flush_before_each_cell_is_proved_and_kept(tmp_path: Path) -> None:
    with engine("--dialect", "sglang") as url:
        result = run_ling_bench("sweep", "--base-url", url, *SMALL, "--flush-cache", "--cache", "keep", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert "cold by flush for agent-c0001: proved" in result.stderr
        (kept,) = cold_starts(tmp_path / result.stdout.splitlines()[-1])
        assert (kept["by"], kept["verified"], kept["cached_after"]) == ("flush", True, 0)


def test_a_tier_that_cannot_be_emptied_ends_the_sweep_with_a_message(tmp_path: Path) -> None:
    with engine("--dialect", "llamacpp") as url:
        arguments = (*SMALL, "--cold-by", "flush", "--allow-l3-clear")
        result = run_ling_bench("sweep", "--base-url", url, *arguments, cwd=tmp_path)
    assert result.returncode == 4
    assert "--cold-by flush: the tier behind could not be emptied" in result.stderr
    assert "Traceback" not in result.stderr
