"""recall, tools, reasoning, context and billing the way a user meets them, against the embedded engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commands import engine, run_ling_bench
from tests.e2e.gateway import billing_gateway

PRICES = ("--price-input", "0.4", "--price-cached-input", "0.1", "--price-output", "1.6")


def verdicts(folder: Path, *arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code and verdicts by check."""
    result = run_ling_bench("check", *arguments, "--budget", "small", "--json", cwd=folder)
    assert result.stdout, result.stderr
    return result.returncode, {each["check"]: each["verdict"] for each in json.loads(result.stdout)["checks"]}


def test_a_context_and_its_bill_through_a_gateway(tmp_path: Path) -> None:
    """One engine for both: the limit is small, and what answers cost is added on the wire."""
    with engine("--max-model-len", "3072") as url, billing_gateway(url, (0.4, 0.1, 1.6)) as gateway:
        code, found = verdicts(tmp_path, "context", "billing", "--base-url", gateway, *PRICES)
    assert (code, found["context"]["status"], found["billing"]["status"]) == (0, "pass", "pass"), found
    assert found["context"]["details"]["longest_prompt_tokens"] == 3072 - 8
    assert found["billing"]["details"]["answers_cached_in_part"] > 0


@pytest.mark.slow
def test_cached_tokens_billed_in_full_fail(tmp_path: Path) -> None:
    with engine() as url, billing_gateway(url, (0.4, 0.4, 1.6)) as gateway:
        code, found = verdicts(tmp_path, "billing", "--base-url", gateway, *PRICES)
    assert (code, found["billing"]["status"]) == (1, "fail")


@pytest.mark.slow
def test_tools_are_called_as_they_should_be(tmp_path: Path) -> None:
    code, found = verdicts(tmp_path, "tools")
    assert (code, found["tools"]["status"]) == (0, "pass"), found["tools"]["reason"]
    assert "two calls at once (the model made none)" in found["tools"]["reason"]


@pytest.mark.slow
def test_thinking_is_told_apart_and_a_bill_that_is_not_told_is_not_applicable(tmp_path: Path) -> None:
    code, found = verdicts(tmp_path, "reasoning", "billing")
    assert (code, found["reasoning"]["status"]) == (0, "pass"), found["reasoning"]["reason"]
    assert found["reasoning"]["details"]["names_in_streams"] == ["reasoning"]
    assert found["billing"]["status"] == "not applicable"


@pytest.mark.slow
def test_needles_come_back(tmp_path: Path) -> None:
    code, found = verdicts(tmp_path, "recall", "--context", "700")
    assert (code, found["recall"]["status"]) == (0, "pass"), found["recall"]["reason"]
    assert "4 digits" in found["recall"]["details"]["form"]


@pytest.mark.slow
def test_needles_are_lost_where_states_are_not_kept(tmp_path: Path) -> None:
    with engine("--fault", "K02:mode=random") as url:
        asked = ("--base-url", url, "--exclusive-server", "--context", "700")
        code, found = verdicts(tmp_path, "recall", *asked)
    assert (code, found["recall"]["status"]) == (1, "fail"), found["recall"]["reason"]


def test_prices_come_all_together_or_not_at_all(tmp_path: Path) -> None:
    result = run_ling_bench("check", "billing", "--price-input", "1", "--dry-run", cwd=tmp_path)
    assert result.returncode == 2 and "all three prices" in result.stderr
