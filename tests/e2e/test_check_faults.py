"""Every accounting fault planted in the embedded engine is found and named by cached-tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.commands import engine, run_ling_bench

pytestmark = pytest.mark.slow


def verdict(folder: Path, *arguments: str) -> tuple[int, dict[str, object]]:
    """Exit code and verdict of cached-tokens against an engine started with `arguments`."""
    with engine(*arguments) as url:
        result = run_ling_bench("check", "cached-tokens", "--base-url", url, "--budget", "small", "--json", cwd=folder)
    found = json.loads(result.stdout)["checks"][0]["verdict"]
    assert isinstance(found, dict)
    return result.returncode, found


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ("K27:mode=parent", "K27/K31"),
        ("K27:mode=salt", "K27/K31"),
        ("K27:mode=tail", "K27/K31"),
        ("K30:mode=zero", "K30"),
        ("K30:mode=null", "K30"),
        ("K30:mode=metric", "K30"),
        ("K31:mode=decode", "K31"),
        ("K31:mode=latent", "K31"),
        ("K32:mode=negative", "K32"),
        ("K32:mode=over", "K32"),
        ("K32:mode=page", "K32"),
        ("K32:mode=rounded", "K32"),
        ("K32:mode=choices", "K32"),
        ("K33:mode=missing", "K33"),
        ("K33:mode=different", "K33"),
        ("K33:mode=continuous", "K33"),
        ("K33:mode=split", "K33"),
    ],
)
def test_a_planted_accounting_fault_fails_by_its_name(tmp_path: Path, fault: str, named: str) -> None:
    code, found = verdict(tmp_path, "--fault", fault)
    assert (code, found["status"]) == (1, "fail"), found["reason"]
    assert f"({named})" in str(found["reason"])


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--fault", "K34:mode=fallback"], "not applicable"),
        (["--fault", "K34:mode=third"], "pass"),
        (["--fault", "K34:mode=granularity"], "pass"),
        (["--policy", "fork", "--noise", "bf16", "--hit-offset", "0.03"], "pass"),
        (["--speculative-tokens", "2"], "pass"),
        (["--replicas", "2"], "pass"),
        (["--dialect", "sglang"], "pass"),
        (["--dialect", "llamacpp"], "pass"),
        (["--fault", "K30:mode=absent"], "inconclusive"),
    ],
)
def test_what_is_no_fault_is_not_accused(tmp_path: Path, arguments: list[str], status: str) -> None:
    _, found = verdict(tmp_path, *arguments)
    assert found["status"] == status, found["reason"]
