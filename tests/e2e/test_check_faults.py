"""Every accounting fault planted in the embedded engine is found and named by cached-tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.commands import engine, run_ling_bench

pytestmark = pytest.mark.slow
# An engine and its client take a core together.
AT_ONCE = 2
Found = tuple[int, dict[str, object]]


def verdict(folder: Path, *arguments: str) -> Found:
    """Exit code and verdict of cached-tokens against an engine started with `arguments`."""
    with engine(*arguments) as url:
        result = run_ling_bench("check", "cached-tokens", "--base-url", url, "--budget", "small", "--json", cwd=folder)
    found = json.loads(result.stdout)["checks"][0]["verdict"]
    assert isinstance(found, dict)
    return result.returncode, found


@pytest.fixture(scope="module")
def verdicts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[Found]]]:
    """What was found of every engine that a chosen test of this file names, two of them asked at a time."""
    chosen = [
        item.callspec.params["arguments"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {each: pool.submit(verdict, tmp_path_factory.mktemp("run"), *each.split()) for each in chosen}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("--fault K27:mode=parent", "K27/K31"),
        ("--fault K27:mode=salt", "K27/K31"),
        ("--fault K27:mode=tail", "K27/K31"),
        ("--fault K30:mode=zero", "K30"),
        ("--fault K30:mode=null", "K30"),
        ("--fault K30:mode=metric", "K30"),
        ("--fault K31:mode=decode", "K31"),
        ("--fault K31:mode=latent", "K31"),
        ("--fault K32:mode=negative", "K32"),
        ("--fault K32:mode=over", "K32"),
        ("--fault K32:mode=page", "K32"),
        ("--fault K32:mode=rounded", "K32"),
        ("--fault K32:mode=choices", "K32"),
        ("--fault K33:mode=missing", "K33"),
        ("--fault K33:mode=different", "K33"),
        ("--fault K33:mode=continuous", "K33"),
        ("--fault K33:mode=split", "K33"),
    ],
)
def test_a_planted_accounting_fault_fails_by_its_name(
    verdicts: Mapping[str, Future[Found]], arguments: str, named: str
) -> None:
    code, found = verdicts[arguments].result()
    assert (code, found["status"]) == (1, "fail"), found["reason"]
    assert f"({named})" in str(found["reason"])


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ("--fault K34:mode=fallback", "not applicable"),
        ("--fault K34:mode=third", "pass"),
        ("--policy fork --noise bf16 --hit-offset 0.03", "pass"),
        ("--speculative-tokens 2", "pass"),
        ("--replicas 2", "pass"),
        ("--dialect sglang", "pass"),
        ("--dialect llamacpp", "pass"),
        ("--fault K30:mode=absent", "inconclusive"),
    ],
)
def test_what_is_no_fault_is_not_accused(verdicts: Mapping[str, Future[Found]], arguments: str, status: str) -> None:
    _, found = verdicts[arguments].result()
    assert found["status"] == status, found["reason"]
