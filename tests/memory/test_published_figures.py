"""Figures from papers, engine logs and public traces, for models of every family."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.memory.model import read_model
from harness.memory.pages import vllm_pages, vllm_reserved_bytes
from harness.memory.sequence import (
    KvDtype,
    Setting,
    StateDtype,
    conv_bytes,
    kv_bytes,
    kv_bytes_per_token,
    snapshot_bytes,
)
from tests.memory.samples import BF16, FP32, GIB, K128, K256, MIB, NEMOTRON_30B, QWEN_27B, QWEN_35B, shape


@pytest.mark.parametrize(
    ("preset", "token_bytes"),
    [
        ("deepseek-v3", 70_272),
        ("kimi-k2", 70_272),
        ("qwen2.5-72b", 327_680),
        ("llama-3.1-405b", 516_096),
        ("qwen3-next-80b", 24_576),
        ("ling-3.0-flash", 8_064),
        ("kimi-linear-48b", 8_064),
        ("nemotron-nano-9b-v2", 16_384),
    ],
)
def test_cache_bytes_a_token(preset: str, token_bytes: int) -> None:
    assert kv_bytes_per_token(shape(preset), FP32) == token_bytes


def test_ling_3_0_flash_state_is_72_46_mib_or_9422_tokens_of_cache() -> None:
    ling = shape("ling-3.0-flash")
    assert snapshot_bytes(ling, FP32) == 75_980_800
    assert snapshot_bytes(ling, FP32) // kv_bytes_per_token(ling, FP32) == 9_422
    assert round(snapshot_bytes(ling, BF16) / MIB, 2) == 37.46


def test_ling_3_1_flash_state_is_260_9_mib_or_26382_tokens_of_cache() -> None:
    ling = shape("ling-3.1-flash")
    assert snapshot_bytes(ling, FP32) == 273_530_880
    assert round(snapshot_bytes(ling, FP32) / kv_bytes_per_token(ling, FP32)) == 26_382


def test_kimi_linear_state_is_41_4_mib() -> None:
    assert round(snapshot_bytes(shape("kimi-linear-48b"), FP32) / MIB, 1) == 41.4


def test_jamba_state_is_16056320_bytes() -> None:
    assert snapshot_bytes(shape("jamba-v0.1"), FP32) == 28 * (3 * 8_192 * 2 + 8_192 * 16 * 4) == 16_056_320


def test_nemotron_nano_keeps_2_gib_of_cache_at_131072_tokens() -> None:
    assert kv_bytes(shape("nemotron-nano-9b-v2"), FP32, K128) == 2 * GIB


def test_the_mtp_layer_caches_1152_bytes_a_token_under_speculation_only() -> None:
    ling = shape("ling-3.1-flash")
    assert kv_bytes_per_token(ling, replace(FP32, draft_tokens=3)) == 10_368 + 1_152


@pytest.mark.parametrize(("tp", "plain", "drafting"), [(1, 1920, 2048), (2, 1024, 1024), (4, 512, 512), (8, 256, 256)])
def test_vllm_block_of_ling_3_0_flash(tp: int, plain: int, drafting: int) -> None:
    for draft_tokens, block in ((0, plain), (3, drafting)):
        pages = vllm_pages(shape("ling-3.0-flash"), Setting(tp=tp, draft_tokens=draft_tokens))
        assert pages is not None and pages.block_tokens == block


@pytest.mark.parametrize(("tp", "block"), [(4, 1024), (8, 512)])
def test_vllm_block_of_ling_3_1_flash(tp: int, block: int) -> None:
    pages = vllm_pages(shape("ling-3.1-flash"), Setting(tp=tp))
    assert pages is not None and pages.block_tokens == block


# (config, state type, cache type, TP, draft tokens, bytes a token where the log's type adds scales, block, padding %)
BLOCK_LOGS = [
    pytest.param(None, "bf16", "bf16", 1, 0, None, 544, 1.49, id="Qwen3-Next"),
    pytest.param(QWEN_27B, "bf16", "bf16", 2, 15, None, 480, 1.27, id="Qwen3.8-27B, 15 drafts"),
    pytest.param(QWEN_27B, "bf16", "fp8", 1, 7, 2_080, 864, 1.09, id="Qwen3.8-27B, int8 cache"),
    pytest.param(QWEN_27B, "fp32", "bf16", 1, 0, None, 784, 0.13, id="Qwen3.5-27B"),
    pytest.param(QWEN_35B, "fp32", "bf16", 1, 0, None, 1056, 0.76, id="Qwen3.5-35B-A3B"),
]


@pytest.mark.parametrize(("config", "state", "cache", "tp", "drafts", "token_bytes", "block", "padding"), BLOCK_LOGS)
def test_vllm_block_as_its_log_says(
    config: dict[str, object] | None,
    state: str,
    cache: str,
    tp: int,
    drafts: int,
    token_bytes: int | None,
    block: int,
    padding: float,
) -> None:
    model = shape("qwen3-next-80b") if config is None else read_model("qwen", config).shape  # type: ignore[arg-type]
    setting = Setting(kv_dtype=KvDtype(cache), state_dtype=StateDtype(state), tp=tp, draft_tokens=drafts)
    pages = vllm_pages(model, setting, attention_token_bytes=token_bytes)
    assert pages is not None
    assert pages.block_tokens == block
    assert round(100 * pages.padding, 2) == padding


@pytest.mark.parametrize(("cache", "block"), [("bf16", 528), ("fp8", 1056)])
def test_vllm_block_of_qwen_3_5_9b_doubles_with_an_fp8_cache(cache: str, block: int) -> None:
    pages = vllm_pages(shape("qwen3.5-9b"), Setting(kv_dtype=KvDtype(cache)))
    assert pages is not None and pages.block_tokens == block


@pytest.mark.parametrize(
    ("config", "reserved"),
    [(QWEN_27B, 17_520_656_384), (QWEN_35B, 5_514_854_400), (NEMOTRON_30B, 1_725_628_416)],
    ids=["Qwen3.8-27B", "Qwen3.6-35B-A3B", "Nemotron-3-Nano-30B"],
)
def test_vllm_reservation_of_a_262144_token_request(config: dict[str, object], reserved: int) -> None:
    model = read_model("traced", config).shape  # type: ignore[arg-type]
    assert vllm_reserved_bytes(model, FP32, K256) == reserved


def test_without_prefix_caching_vllm_reserves_one_state_less() -> None:
    model = read_model("traced", QWEN_27B).shape
    assert vllm_reserved_bytes(model, FP32, K256, prefix_caching=False) == 17_366_515_712


def test_convolution_rows_grow_with_the_draft_tokens_on_vllm() -> None:
    ling = shape("ling-3.0-flash")
    assert conv_bytes(ling, Setting(draft_tokens=3)) == 2 * conv_bytes(ling, FP32)


def test_a_prompt_shorter_than_a_block_hits_nothing_and_with_mtp_not_below_two() -> None:
    ling = shape("ling-3.1-flash")
    plain, drafting = vllm_pages(ling, Setting(tp=8)), vllm_pages(ling, Setting(tp=8, draft_tokens=3))
    assert plain is not None and plain.smallest_hit_tokens == 513
    assert drafting is not None and drafting.smallest_hit_tokens == 2 * drafting.block_tokens
