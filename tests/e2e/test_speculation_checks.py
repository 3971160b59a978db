"""The checks of streams and speculation against the embedded engine with drafts, as a user runs them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.commands import engine, run_ling_bench


@pytest.fixture(scope="module")
def drafting() -> Iterator[str]:
    with engine("--speculative-tokens", "3") as base_url:
        yield base_url


def check(name: str, base_url: str, cwd: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return run_ling_bench("check", name, "--base-url", base_url, "--budget", "small", "--json", *more, cwd=cwd)


def verdict(result: subprocess.CompletedProcess[str]) -> dict[str, object]:
    found = json.loads(result.stdout.rpartition("}")[0] + "}")["checks"][0]["verdict"]
    assert isinstance(found, dict)
    return found


def test_streams_of_a_healthy_engine_pass(drafting: str, tmp_path: Path) -> None:
    result = check("stream", drafting, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert verdict(result)["status"] == "pass"


def test_split_usage_in_streams_fails(tmp_path: Path) -> None:
    with engine("--fault", "K33:mode=split") as base_url:
        result = check("stream", base_url, tmp_path)
    assert result.returncode == 1, result.stderr
    assert "different usage objects" in str(verdict(result)["reason"])


@pytest.mark.slow
def test_acceptance_of_a_healthy_engine_passes(drafting: str, tmp_path: Path) -> None:
    result = check("mtp", drafting, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    found = verdict(result)
    assert found["status"] == "pass" and "by counters" in str(found["reason"])


def test_a_healthy_engine_is_after_load_as_it_was_before(drafting: str, tmp_path: Path) -> None:
    result = check("heartbeat", drafting, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert verdict(result)["status"] == "pass"


@pytest.mark.slow
def test_drafts_of_a_healthy_engine_change_nothing(drafting: str, tmp_path: Path) -> None:
    result = check("spec-parity", drafting, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert verdict(result)["status"] == "pass"


def test_rejected_drafts_that_stay_in_the_state_fail(tmp_path: Path) -> None:
    with engine("--speculative-tokens", "3", "--fault", "K20") as base_url:
        result = check("spec-parity", base_url, tmp_path)
    assert result.returncode == 1, result.stderr
    assert "fresh prompts repeat it" in str(verdict(result)["reason"])
