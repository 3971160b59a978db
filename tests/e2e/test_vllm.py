"""A probe of a real vLLM on the CPU; run by hand after tests/servers/install_vllm.sh, with -m vllm."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.endpoint.probe.names import CAPABILITIES
from tests.e2e.test_probe import assert_right, probed, rows
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
