"""Ranks, nodes, sessions: what splits, what is replicated, what fits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli.memory import preset_names
from harness.memory.node import NodeBudget, parse_node, sessions
from harness.memory.sequence import (
    Engine,
    KvDtype,
    Setting,
    StateDtype,
    break_even_tokens,
    default_state_dtype,
    sequence_bytes,
    snapshot_bytes,
)
from harness.memory.shape import Attention, LayerGroup, LayerKind, ModelShape, Recurrent, SplitError
from tests.memory.samples import FP32, K256, LING, M1, shape

BUDGET = NodeBudget(node=parse_node("8xH200"), loaded_bytes=689 * 10**9, reserve_bytes=0)
SHAPES = [shape(name) for name in preset_names()]


def heads(count: int) -> Attention:
    return Attention(kind=LayerKind.FULL, cache_heads=count, values_per_head=256)


@given(model=st.sampled_from(SHAPES), tp=st.sampled_from([1, 2, 4, 8, 16]), context=st.integers(1, M1))
def test_the_ranks_together_hold_the_whole_and_never_less(model: ModelShape, tp: int, context: int) -> None:
    if not model.heads_divide(tp):
        return
    rank = sequence_bytes(model, replace(FP32, tp=tp), context)
    whole = sequence_bytes(model, FP32, context)
    assert whole.total_bytes <= tp * rank.total_bytes
    assert rank.total_bytes <= whole.total_bytes


@given(model=st.sampled_from(SHAPES), context=st.integers(1, M1), more=st.integers(1, 1_000))
def test_a_longer_sequence_never_takes_less_and_its_state_is_the_same(
    model: ModelShape, context: int, more: int
) -> None:
    short, long = sequence_bytes(model, FP32, context), sequence_bytes(model, FP32, context + more)
    assert short.kv_bytes <= long.kv_bytes
    assert short.state_bytes == long.state_bytes


@given(state=st.sampled_from(list(StateDtype)), cache=st.sampled_from(list(KvDtype)), model=st.sampled_from(SHAPES))
def test_at_the_break_even_length_both_take_the_same(state: StateDtype, cache: KvDtype, model: ModelShape) -> None:
    setting = Setting(state_dtype=state, kv_dtype=cache)
    level = break_even_tokens(model, setting, with_conv=True)
    if level is None or not model.recurrent_groups():
        return
    at = sequence_bytes(model, setting, level)
    assert at.all_attention_bytes == pytest.approx(at.total_bytes, rel=max(1e-3, 0.5 / level))


def test_key_value_heads_split_and_are_repeated_once_ranks_outnumber_them() -> None:
    assert [heads(8).values_per_token(tp) for tp in (1, 4, 8, 16)] == [2_048, 512, 256, 256]


def test_heads_that_do_not_divide_are_said() -> None:
    with pytest.raises(SplitError, match="8 key-value heads do not split over 3"):
        heads(8).values_per_token(3)
    with pytest.raises(SplitError, match="4 recurrent heads do not split over 8"):
        Recurrent(kind=LayerKind.KDA, heads=4, values_per_head=16).state_values(8)


def test_shared_convolution_groups_are_repeated_once_ranks_outnumber_them() -> None:
    mamba = Recurrent(
        kind=LayerKind.MAMBA2, heads=16, values_per_head=1, conv_rows=3, conv_groups=2, conv_channels_per_group=10
    )
    assert [mamba.conv_values(tp) for tp in (1, 2, 4)] == [60, 30, 30]


def test_sessions_under_tp_pay_the_latent_on_every_rank() -> None:
    fit = sessions(LING, replace(FP32, tp=8), BUDGET, K256)
    assert (fit.sessions_tp, fit.sessions_dp_attention) == (19, 144)


def test_two_groups_of_four_ranks_hold_twice_as_many() -> None:
    per_gpu = BUDGET.free_bytes // 8
    rank = sequence_bytes(LING, replace(FP32, tp=4), K256).total_bytes
    assert sessions(LING, replace(FP32, tp=4), BUDGET, K256).sessions_tp == 2 * (per_gpu // rank)


def test_no_sessions_under_a_tp_that_does_not_divide() -> None:
    assert sessions(LING, replace(FP32, tp=7), BUDGET, K256).sessions_tp is None


def test_reserved_memory_holds_no_sessions() -> None:
    tighter = replace(BUDGET, reserve_bytes=200 * 10**9)
    assert tighter.free_bytes == 239 * 10**9
    assert sessions(LING, FP32, tighter, K256).sessions_dp_attention < 144


def test_a_node_too_small_for_the_weights_is_said() -> None:
    with pytest.raises(ValueError, match="1,128 GB, and 1,200 GB are taken"):
        replace(BUDGET, loaded_bytes=1_200 * 10**9)


@pytest.mark.parametrize(("text", "gpus", "gigabytes"), [("2x80", 2, 80), ("8x80GB", 8, 80), ("4xgb300", 4, 288)])
def test_nodes_are_named_or_given_in_gb(text: str, gpus: int, gigabytes: int) -> None:
    node = parse_node(text)
    assert (node.gpus, node.gpu_bytes) == (gpus, gigabytes * 10**9)


@pytest.mark.parametrize(
    ("text", "said"), [("H200", "is not a node"), ("8xTPU", "memory of TPU is not known"), ("0x80", "at least one GPU")]
)
def test_a_node_that_is_none_is_said(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_node(text)


def test_each_cached_snapshot_costs_a_whole_state() -> None:
    plain, kept = (sequence_bytes(LING, replace(FP32, snapshots=count), K256) for count in (0, 2))
    assert kept.state_bytes - plain.state_bytes == 2 * snapshot_bytes(LING, FP32)


def test_speculation_keeps_states_to_roll_back_to() -> None:
    assert Setting(draft_tokens=3).draft_states == 3
    assert Setting(draft_tokens=3, engine=Engine.SGLANG).draft_states == 4
    assert Setting(engine=Engine.SGLANG).draft_states == 0


def test_the_state_type_is_the_configs_own_or_fp32() -> None:
    declared = replace(LING, declared_state_dtype="bfloat16")
    assert default_state_dtype(LING) is StateDtype.FP32
    assert default_state_dtype(declared) is StateDtype.BF16


def test_a_layer_group_keeps_something() -> None:
    with pytest.raises(ValueError, match="keeps attention, a state, or both"):
        LayerGroup(count=1)
