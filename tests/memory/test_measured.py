"""A server's own figures beside the computed ones, from recorded counters of real servers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.endpoint.dialects.prometheus import parse_counters
from harness.memory.measured import Reported, compare, implied_state_dtypes, read_sglang, read_vllm
from harness.memory.model import read_model
from harness.memory.sequence import Setting, StateDtype, kv_bytes_per_token, snapshot_bytes
from tests.memory.samples import FP32, LING, TINY_BAILING, TINY_QWEN_NEXT, shape

FIXTURES = Path(__file__).parent.parent / "fixtures" / "memory"
QWEN3_TINY = {
    "model_type": "qwen3", "num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64,
}  # fmt: skip


def counters(name: str) -> dict[str, float]:
    return parse_counters((FIXTURES / f"{name}.txt").read_text())


def vllm(name: str) -> Reported:
    reported = read_vllm(counters(name), 8_192)
    assert reported is not None
    return reported


def test_vllm_capacity_block_and_state_type_with_prefix_caching() -> None:
    reported = vllm("vllm-qwen3next")
    assert (reported.token_capacity, reported.blocks, reported.block_tokens) == (706_236, 1_638, 640)
    comparison = compare(read_model("tiny", TINY_QWEN_NEXT).shape, FP32, reported)
    rows = {row.what: row for row in comparison.rows}
    assert rows["capacity, tokens"].computed == pytest.approx(706_236, rel=0.001)
    assert rows["block, tokens"].computed == 640
    assert comparison.implied_state_dtypes == (StateDtype.FP32,)


def test_vllm_capacity_with_mtp_and_without_prefix_caching() -> None:
    reported = vllm("vllm-bailing3-mtp2")
    assert reported.prefix_caching is False
    comparison = compare(read_model("tiny", TINY_BAILING).shape, Setting(draft_tokens=2), reported)
    rows = {row.what: row for row in comparison.rows}
    assert rows["capacity, tokens"].reported == 212_992
    assert rows["capacity, tokens"].computed == pytest.approx(212_992, rel=0.001)
    assert rows["block, tokens"].computed == rows["block, tokens"].reported == 256


def test_the_block_tells_the_state_type_where_the_server_does_not() -> None:
    reported = Reported(engine="vllm", block_tokens=512)
    assert implied_state_dtypes(LING, replace(FP32, tp=8), reported) == (StateDtype.FP32,)
    assert implied_state_dtypes(LING, replace(FP32, tp=1), reported) == ()
    assert implied_state_dtypes(LING, FP32, Reported(engine="sglang")) == ()


def test_the_servers_own_state_type_wins_over_the_option() -> None:
    reported = replace(vllm("vllm-qwen3next"), state_dtype="bfloat16")
    comparison = compare(read_model("tiny", TINY_QWEN_NEXT).shape, FP32, reported)
    assert {row.what: row.computed for row in comparison.rows}["block, tokens"] != 640


def test_counters_without_the_cache_line_are_no_report() -> None:
    assert read_vllm({"vllm:num_requests_running": 0.0}, None) is None


def test_sglang_tokens_and_memory_agree_with_the_config() -> None:
    info = {"tp_size": 1, "internal_states": [{"memory_usage": {"kvcache": 0.125}}]}
    reported = read_sglang(counters("sglang-qwen3"), info, 8_192)  # type: ignore[arg-type]
    assert (reported.token_capacity, reported.state_slots, reported.tp) == (65_536, 0, 1)
    rows = {row.what: row for row in compare(read_model("tiny", QWEN3_TINY).shape, FP32, reported).rows}
    cache = rows["cache of these tokens on a rank, bytes"]
    assert cache.computed == cache.reported == 0.125 * (1 << 30)


def test_sglang_state_slots_are_counted_over_free_cached_and_used() -> None:
    slots = {
        'sglang:mamba_available_tokens{tp_rank="0"}': 10.0,
        'sglang:mamba_evictable_tokens{tp_rank="0"}': 3.0,
        'sglang:mamba_used_tokens{tp_rank="0"}': 2.0,
        'sglang:mamba_available_tokens{tp_rank="1"}': 10.0,
    }
    info = {"tp_size": 8, "max_total_num_tokens": 1_000, "mamba_ssm_dtype": "bfloat16"}
    reported = read_sglang(slots, info, None)
    assert (reported.state_slots, reported.token_capacity) == (15, 1_000)
    served = Setting(tp=8, state_dtype=StateDtype.BF16)
    rows = {row.what: row.computed for row in compare(LING, FP32, reported).rows}
    assert rows["states of these slots on a rank, bytes"] == 15 * snapshot_bytes(LING, served)
    assert rows["cache of these tokens on a rank, bytes"] == 1_000 * kv_bytes_per_token(LING, served)


def test_sglang_dp_attention_splits_over_fewer_ranks() -> None:
    info = {"tp_size": 8, "dp_size": 8, "enable_dp_attention": True}
    assert read_sglang({}, info, None).tp == 1


def test_a_server_that_says_nothing_leaves_both_sides_empty() -> None:
    rows = compare(shape("deepseek-v3"), FP32, Reported(engine="vllm")).rows
    assert all(row.reported is None for row in rows)
    assert all(row.computed is None for row in rows)
