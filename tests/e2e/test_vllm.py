"""A real vLLM on the CPU, probed and checked; run by hand after tests/servers/install_vllm.sh, with -m vllm."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.endpoint.probe.names import CAPABILITIES
from tests.e2e.commands import run_ling_bench
from tests.e2e.test_probe import assert_right, probed, rows
from tests.e2e.test_speculation_checks import verdict
from tests.servers.vllm_server import find_vllm, start_vllm

# A tiny model of random weights neither reasons nor calls a tool, and no parser for either is switched on.
EXPECTED: dict[str, bool | None] = {
    **dict.fromkeys(CAPABILITIES, True),
    "cached_tokens_by_tier": False,
    "cache_bypass": False,
    "native_scoring": False,
    "flush_while_busy": False,
    # Tokens of one byte are often written alike, and alternatives written alike are one.
    "top_logprobs_20": False,
    "logprobs_with_speculation": None,
    "speculation_per_request": None,
    "tool_calls": False,
    "reasoning": None,
}
NGRAM = '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}'


@pytest.mark.vllm
@pytest.mark.parametrize(
    ("kind", "arguments", "own"),
    [
        ("attention", (), {}),
        # Version 0.32 on a CPU dies of a seeded sample from this one ("CPU Generator does not use offset").
        ("hybrid", (), {"seed": None}),
        (
            "attention",
            ("--speculative-config", NGRAM),
            {"logprobs_with_speculation": True, "speculation_per_request": False},
        ),
    ],
)
def test_every_row_of_a_real_vllm(
    kind: str, arguments: tuple[str, ...], own: dict[str, bool | None], tmp_path: Path
) -> None:
    if find_vllm() is None:
        pytest.skip("no vLLM here: run tests/servers/install_vllm.sh")
    with start_vllm(kind, tmp_path, *arguments) as url:
        found = probed(url, tmp_path)
    assert (found["engine"], found["max_model_len"]) == ("vllm", 8192)
    assert_right(rows(found), {**EXPECTED, **own})


# This version caches no prefixes beside MLA on a CPU without AMX, and dies of MTP with them on one that has it. Its
# short convolution does not know how many drafts were accepted; with several such sequences at once it can read outside
# its memory, so there is one.
LING = ("--no-enable-prefix-caching", "--max-num-batched-tokens", "16384")
MTP = ("--max-num-seqs", "1", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}')


@pytest.mark.vllm
@pytest.mark.parametrize(("more", "status"), [(MTP, "fail"), ((), "pass")], ids=["drafts, known bad", "its twin"])
def test_drafts_of_a_real_ling_that_are_known_to_be_bad_and_its_twin_without(
    more: tuple[str, ...], status: str, tmp_path: Path
) -> None:
    if find_vllm() is None:
        pytest.skip("no vLLM here: run tests/servers/install_vllm.sh")
    with start_vllm("ling", tmp_path, *LING, *more) as url:
        asked = ("check", "spec-parity", "--base-url", url, "--budget", "small", "--json")
        result = run_ling_bench(*asked, cwd=tmp_path, timeout_s=900)
    found = verdict(result)
    assert found["status"] == status, found["reason"]
