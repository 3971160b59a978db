"""A probe of the embedded engine in its three dialects and of a real llama-server: right in every row."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.endpoint.probe.names import CAPABILITIES
from tests.e2e.commands import clean_environment, engine, run_ling_bench
from tests.servers.llama_server import start_llama_server

# What holds of the embedded engine whatever it calls things.
EMBEDDED: dict[str, bool | None] = {
    **dict.fromkeys(CAPABILITIES, True),
    "cached_tokens_by_tier": False,
    "cache_bypass": False,
    "native_scoring": False,
    "logprobs_with_speculation": None,
    "speculation_per_request": None,
}
IN_THE_ACT = {"flush_while_busy", "cancellation"}
VLLM = {"flush_while_busy": False}
SGLANG = {"cached_tokens_by_tier": True, "native_scoring": True}
SGLANG_DRAFTING = {**SGLANG, "logprobs_with_speculation": True, "speculation_per_request": True}
LLAMA_CPP: dict[str, bool | None] = {
    "prompt_logprobs": False,
    "prompt_logprobs_bypass_cache": None,
    "token_ids_returned": False,
    "salt": False,
    "cache_bypass": True,
}
# A real server without drafts; a tiny model neither calls a tool nor reasons within the few tokens it is given.
REAL_LLAMA = {**LLAMA_CPP, "tool_calls": None, "reasoning": None}


def probed(url: str, cwd: Path, *more: str) -> dict[str, object]:
    result = run_ling_bench("probe", "--base-url", url, "--exclusive-server", "--json", *more, cwd=cwd)
    assert result.returncode == 0, result.stderr
    found: dict[str, object] = json.loads(result.stdout)
    return found


def rows(found: dict[str, object]) -> dict[str, bool | None]:
    capabilities = found["capabilities"]
    assert isinstance(capabilities, dict)
    return {name: each["works"] for name, each in capabilities.items()}


def assert_right(seen: dict[str, bool | None], expected: dict[str, bool | None]) -> None:
    """Row by row; what has to be caught in the act may also end before it could be told."""
    for name, works in expected.items():
        allowed = {works, None} if name in IN_THE_ACT else {works}
        assert seen[name] in allowed, (name, seen[name])
    assert seen.keys() == expected.keys()


def test_every_row_of_the_embedded_engine_as_vllm(tmp_path: Path) -> None:
    result = run_ling_bench("probe", "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["engine"], found["model"], found["max_model_len"]) == ("vllm", "ling-mini", 16384)
    assert_right(rows(found), {**EMBEDDED, **VLLM})
    assert found["settings"]["block_tokens"]["value"] == 64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "own"),
    [
        (("--dialect", "sglang"), SGLANG),
        (("--dialect", "sglang", "--speculative-tokens", "2"), SGLANG_DRAFTING),
        (("--dialect", "llamacpp"), LLAMA_CPP),
    ],
)
def test_every_row_in_the_other_dialects(
    arguments: tuple[str, ...], own: dict[str, bool | None], tmp_path: Path
) -> None:
    with engine(*arguments) as url:
        assert_right(rows(probed(url, tmp_path)), {**EMBEDDED, **own})


@pytest.mark.slow
def test_without_cache_report_the_flag_is_named_and_caches_are_counted(tmp_path: Path) -> None:
    with engine("--no-cache-report") as url:
        found = probed(url, tmp_path)
        table = run_ling_bench("probe", "--base-url", url, cwd=tmp_path).stdout
    seen = rows(found)
    assert (seen["cached_tokens_whole"], seen["salt"], seen["cache_domains"]) == (False, None, None)
    assert "switch on: --enable-prompt-tokens-details" in table
    with engine("--replicas", "3") as url:
        capabilities = probed(url, tmp_path)["capabilities"]
    assert isinstance(capabilities, dict)
    assert capabilities["cache_domains"]["how"].startswith("3 seen")


@pytest.mark.llama_server
@pytest.mark.parametrize(
    ("arguments", "own"),
    [
        ((), {"logprobs_with_speculation": None, "speculation_per_request": None}),
        (
            ("--spec-type", "draft-mtp", "--spec-draft-n-max", "2"),
            {"logprobs_with_speculation": False, "speculation_per_request": True, "top_logprobs_20": False},
        ),
    ],
)
def test_every_row_of_a_real_llama_server(
    arguments: tuple[str, ...], own: dict[str, bool | None], tmp_path: Path
) -> None:
    gguf = tmp_path / "ling-mini.gguf"
    command = [sys.executable, "-m", "harness.reference.weights.gguf_export", str(gguf)]
    subprocess.run(command, check=True, env=clean_environment(), timeout=120)
    slots = ("--slots", "--slot-save-path", str(tmp_path))
    start = ("-c", "32768", "-np", "4", "-cram", "0", "--metrics", "--jinja", *slots, *arguments)
    with start_llama_server(gguf, *start) as url:
        found = probed(url, tmp_path)
    assert_right(rows(found), {**EMBEDDED, **REAL_LLAMA, **own})
    assert found["engine"] == "llama.cpp"
