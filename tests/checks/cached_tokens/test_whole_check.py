"""The whole check in virtual time: healthy servers of all kinds pass, every accounting fault fails by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.checks.cached_tokens.check import CACHED_TOKENS
from harness.checks.verdict import Status, Verdict
from tests.checks.running import run_simulated
from tests.checks.simulated_server import Served


def verdict_of(folder: Path, **server: Any) -> Verdict:
    verdict = run_simulated(CACHED_TOKENS, folder, **server).verdict
    assert verdict is not None
    return verdict


@pytest.mark.parametrize(
    ("server", "step", "offset"),
    [
        ({}, 64, 1),
        ({"step": 16}, 16, 1),
        ({"step": 1}, 1, 1),
        ({"step": 1, "offset": 4}, 1, 4),
        ({"step": 640, "sightings": 2}, 640, 1),
        ({"sightings": 3}, 64, 1),
        ({"takes_ids": False}, 64, None),
        ({"counters": False}, 64, 1),
        ({"flushes": False}, 64, 1),
        ({"noise_ms": 30.0}, 64, 1),
    ],
    ids=[
        "blocks",
        "small blocks",
        "page 1",
        "llama.cpp",
        "third sighting",
        "fourth sighting",
        "text",
        "no counters",
        "no flush",
        "noise",
    ],
)
def test_a_healthy_server_passes_and_its_grid_is_found(
    tmp_path: Path, server: dict[str, Any], step: int, offset: int | None
) -> None:
    verdict = verdict_of(tmp_path, **server)
    assert verdict.status is Status.PASS, verdict.reason
    assert verdict.details["step"] == step
    assert offset is None or verdict.details["offset"] == offset
    assert verdict.details["misfit_count"] == 0
    assert verdict.violations == 0 and verdict.examined == verdict.eligible


def lie_zero(served: Served) -> int | None:
    return 0


def lie_absent_on_hits(served: Served) -> int | None:
    return None if served.cached_tokens else 0


def lie_rarely_zero(served: Served) -> int | None:
    return 0 if served.number % 2 else served.cached_tokens


def lie_a_block_more(served: Served) -> int | None:
    return served.cached_tokens + 64 if served.cached_tokens else 0


def lie_whole_prompt(served: Served) -> int | None:
    return served.prompt_tokens


def lie_negative_when_cold(served: Served) -> int | None:
    return served.cached_tokens if served.cached_tokens else -1


def lie_one_short_of_the_prompt(served: Served) -> int | None:
    return served.prompt_tokens - 1


def lie_not_in_streams(served: Served) -> int | None:
    return None if served.stream else served.cached_tokens


def lie_zero_in_whole_answers(served: Served) -> int | None:
    return served.cached_tokens if served.stream else 0


@pytest.mark.parametrize(
    ("lie", "fault"),
    [
        (lie_zero, "K30"),
        (lie_absent_on_hits, "K30"),
        (lie_rarely_zero, "K30"),
        (lie_a_block_more, "K31"),
        (lie_one_short_of_the_prompt, "K31"),
        (lie_whole_prompt, "K32"),
        (lie_negative_when_cold, "K32"),
        (lie_not_in_streams, "K33"),
        (lie_zero_in_whole_answers, "K33"),
    ],
)
def test_an_accounting_fault_fails_by_its_name(tmp_path: Path, lie: Callable[[Served], int | None], fault: str) -> None:
    verdict = verdict_of(tmp_path, report=lie)
    assert verdict.status is Status.FAIL, verdict.reason
    assert f"({fault})" in verdict.reason
    assert verdict.violations >= len(verdict.evidence) > 0
    assert all(evidence.request_ids for evidence in verdict.evidence)


def test_a_salt_that_vllm_ignores_is_found(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, salts=False)
    assert verdict.status is Status.FAIL and "salt" in verdict.reason


def test_a_salt_that_an_engine_need_not_know_is_a_capability(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, salts=False, engine="llama.cpp")
    assert verdict.status is Status.PASS
    assert verdict.details["salt_honoured"] is False


def test_hits_that_save_no_time_fail_after_a_second_look(tmp_path: Path) -> None:
    """Usage and counters agree, but every prompt takes as long as a cold one."""

    def known(served: Served) -> int:
        return min(served.known_tokens, served.prompt_tokens - 1) // 64 * 64

    # A step larger than any prompt: nothing is ever reused, whatever is reported.
    verdict = verdict_of(tmp_path, step=100_000, report=known, counted=known)
    assert verdict.status is Status.FAIL and "(K31)" in verdict.reason
    assert "by time" in verdict.reason


def test_zeros_of_a_server_without_counters_are_betrayed_by_time(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, report=lie_zero, counters=False)
    assert verdict.status is Status.FAIL and "(K30)" in verdict.reason


def test_a_cache_that_never_hits_is_a_capability(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, step=100_000)
    assert verdict.status is Status.NOT_APPLICABLE
    assert "inert" in verdict.reason


def test_a_required_cache_that_never_hits_is_undecided(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, step=100_000, options={"require": ["cached-tokens"]})
    assert verdict.status is Status.INCONCLUSIVE


def test_a_server_that_reports_nothing_is_told_its_flag(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, report=lambda served: None)
    assert verdict.status is Status.INCONCLUSIVE
    assert "--enable-prompt-tokens-details" in verdict.reason


@pytest.mark.parametrize(
    ("required", "status"), [("cached-tokens", Status.INCONCLUSIVE), ("cached-report", Status.FAIL)]
)
def test_reporting_nothing_fails_only_where_the_report_is_said_to_be_on(
    tmp_path: Path, required: str, status: Status
) -> None:
    verdict = verdict_of(tmp_path, report=lambda served: None, options={"require": [required]})
    assert verdict.status is status
    assert "--enable-prompt-tokens-details" in verdict.reason


def test_nulls_for_zero_are_let_go_where_the_engine_is_not_known(tmp_path: Path) -> None:
    def null_for_zero(served: Served) -> int | None:
        return served.cached_tokens if served.cached_tokens else None

    verdict = verdict_of(tmp_path, report=null_for_zero, engine="some-gateway")
    assert verdict.status is Status.PASS, verdict.reason


@pytest.mark.parametrize("replicas", [2, 3])
def test_replicas_are_counted_and_forgiven(tmp_path: Path, replicas: int) -> None:
    verdict = verdict_of(tmp_path, replicas=replicas)
    assert verdict.status is Status.PASS, verdict.reason
    assert verdict.details["cache_domains"] == replicas
    assert f"{replicas} cache domains" in verdict.reason


def test_foreign_traffic_makes_it_undecided(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, foreign_tokens=300)
    assert verdict.status is Status.INCONCLUSIVE
    assert "not alone" in verdict.reason
