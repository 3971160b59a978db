"""The memory figures an engineer published for Ling-3.1-flash, each reproduced from the config."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.cli.memory import load_preset
from harness.memory.node import NodeBudget, parse_node
from harness.memory.sequence import (
    all_attention_bytes,
    break_even_tokens,
    conv_bytes,
    kv_bytes,
    kv_bytes_per_token,
    sequence_bytes,
    state_bytes,
)
from tests.memory.samples import BF16, FP8_CACHE, FP32, GIB, K32, K128, K256, LING, M1, MIB

TP8 = replace(FP32, tp=8)


def test_layers_are_63_kda_and_9_mla() -> None:
    assert LING.layers_by_kind() == {"KDA": 63, "MLA": 9}


def test_an_mla_layer_keeps_1152_bytes_a_token() -> None:
    attention = LING.attention_groups()[0].attention
    assert attention is not None
    assert attention.values_per_token() * 2 == 1_152


def test_the_cache_grows_by_10368_bytes_a_token() -> None:
    assert kv_bytes_per_token(LING, FP32) == 10_368


@pytest.mark.parametrize(
    ("context", "gib", "digits"), [(K32, 0.32, 2), (K128, 1.27, 2), (K256, 2.53, 2), (M1, 10.1, 1)]
)
def test_cache_of_one_sequence(context: int, gib: float, digits: int) -> None:
    assert round(kv_bytes(LING, FP32, context) / GIB, digits) == gib


def test_all_72_layers_mla_would_take_eight_times_as_much() -> None:
    for context in (K256, M1):
        assert all_attention_bytes(LING, FP32, context) == 8 * kv_bytes(LING, FP32, context)
        assert all_attention_bytes(LING, FP32, context) == 82_944 * context


def test_all_72_layers_mla_would_take_20_gib_at_262144_and_81_gib_at_1m() -> None:
    assert all_attention_bytes(LING, FP32, K256) == pytest.approx(20 * GIB, rel=0.02)
    assert all_attention_bytes(LING, FP32, M1) == 81 * GIB


def test_fp8_halves_the_cache_and_the_all_attention_comparison() -> None:
    assert 2 * kv_bytes(LING, FP8_CACHE, M1) == kv_bytes(LING, FP32, M1)
    everywhere = all_attention_bytes(LING, FP8_CACHE, M1)
    assert everywhere is not None
    assert 2 * everywhere == all_attention_bytes(LING, FP32, M1)


def test_a_kda_layer_has_1048576_state_values() -> None:
    recurrent = LING.recurrent_groups()[0].recurrent
    assert recurrent is not None
    assert recurrent.state_values() == 1_048_576


def test_the_states_take_252_mib_at_fp32_and_126_mib_at_bf16() -> None:
    assert state_bytes(LING, FP32) == 252 * MIB
    assert state_bytes(LING, BF16) == 126 * MIB


def test_convolutions_take_8_86_mib_more() -> None:
    assert conv_bytes(LING, FP32) == 3 * 24_576 * 63 * 2
    assert round(conv_bytes(LING, FP32) / MIB, 2) == 8.86


def test_break_even_is_3641_tokens_at_fp32_and_1820_at_bf16() -> None:
    assert break_even_tokens(LING, FP32) == 3_641
    assert break_even_tokens(LING, BF16) == 1_820


def test_a_262144_token_session_takes_2_8_gib() -> None:
    assert round(sequence_bytes(LING, FP32, K256).total_bytes / GIB, 1) == 2.8


def test_nodes_have_1128_and_1152_gb() -> None:
    assert parse_node("8xH200").total_bytes == 1_128 * 10**9
    assert parse_node("4xGB300").total_bytes == 1_152 * 10**9


def test_439_and_463_gb_are_left_beside_689_gb_of_weights() -> None:
    loaded = load_preset("ling-3.1-flash").loaded_bytes
    assert loaded is not None and loaded.value == 689e9
    for node, free in (("8xH200", 439), ("4xGB300", 463)):
        budget = NodeBudget(node=parse_node(node), loaded_bytes=round(loaded.value), reserve_bytes=0)
        assert budget.free_bytes == free * 10**9


def test_tensor_parallelism_replicates_the_latent_and_splits_the_state() -> None:
    assert kv_bytes(LING, TP8, K256) == kv_bytes(LING, FP32, K256)
    assert 8 * state_bytes(LING, TP8) == state_bytes(LING, FP32)


def test_under_tp8_every_rank_pays_2_53_gib_and_an_eighth_of_the_state() -> None:
    rank = sequence_bytes(LING, TP8, K256).total_bytes
    assert rank == kv_bytes(LING, FP32, K256) + (state_bytes(LING, FP32) + conv_bytes(LING, FP32)) // 8


def test_under_dp_attention_one_rank_pays_2_8_gib() -> None:
    assert round(sequence_bytes(LING, replace(TP8, tp=1), K256).total_bytes / GIB, 1) == 2.8


def test_card_and_config_disagree_about_the_context() -> None:
    assert load_preset("ling-3.1-flash").card_context_tokens == 1_000_000
    assert LING.max_context_tokens == K256
