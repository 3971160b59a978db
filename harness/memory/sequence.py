"""From values to bytes: what one sequence costs, whole or on one rank, at any length."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from harness.memory.shape import Attention, LayerGroup, ModelShape


class KvDtype(StrEnum):
    """How keys, values and latents are stored."""

    BF16 = "bf16"
    FP8 = "fp8"
    FP32 = "fp32"

    @property
    def value_bytes(self) -> int:
        """Bytes a value."""
        return {"bf16": 2, "fp8": 1, "fp32": 4}[self.value]


class StateDtype(StrEnum):
    """How recurrent states are stored."""

    FP32 = "fp32"
    BF16 = "bf16"

    @property
    def value_bytes(self) -> int:
        """Bytes a value."""
        return {"fp32": 4, "bf16": 2}[self.value]


class Engine(StrEnum):
    """Whose rules decide what speculation keeps besides."""

    VLLM = "vllm"
    SGLANG = "sglang"


DECLARED = {"float32": StateDtype.FP32, "bfloat16": StateDtype.BF16, "float16": StateDtype.BF16}


def default_state_dtype(shape: ModelShape) -> StateDtype:
    """The config's own word, else fp32, which is what SGLang takes for every model and vLLM for KDA."""
    return DECLARED.get(shape.declared_state_dtype or "", StateDtype.FP32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How a model is served, as far as its memory is concerned.

    tp: ranks that attention is split over (1: one rank holds everything, as under data-parallel attention).
    draft_tokens: speculative tokens a step; 0: no speculation, and the MTP layer caches nothing.
    snapshots: cached states kept for each sequence besides its live one (one a turn end, one a fork).
    """

    kv_dtype: KvDtype = KvDtype.BF16
    state_dtype: StateDtype = StateDtype.FP32
    tp: int = 1
    draft_tokens: int = 0
    engine: Engine = Engine.VLLM
    snapshots: int = 0

    @property
    def conv_value_bytes(self) -> int:
        """Bytes of a convolution input: kept in the model's own type, which is 32 bits wide only if the cache's is."""
        return 4 if self.kv_dtype is KvDtype.FP32 else 2

    @property
    def draft_states(self) -> int:
        """Further states a running sequence holds so that rejected drafts can be rolled back.

        vLLM: one block a draft token. SGLang: an intermediate state for each token verified, drafts and bonus.
        """
        if self.draft_tokens == 0:
            return 0
        return self.draft_tokens + (1 if self.engine is Engine.SGLANG else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceBytes:
    """What one sequence of `context_tokens` keeps. all_attention_bytes: None where the comparison has no meaning."""

    context_tokens: int
    kv_bytes: int
    state_bytes: int
    all_attention_bytes: int | None

    @property
    def total_bytes(self) -> int:
        """Cache and states together."""
        return self.kv_bytes + self.state_bytes


def _attention_layers(shape: ModelShape, setting: Setting) -> list[tuple[int, Attention]]:
    groups: list[LayerGroup] = list(shape.attention_groups())
    if shape.mtp is not None and setting.draft_tokens:
        groups.append(shape.mtp)
    return [(group.count, group.attention) for group in groups if group.attention is not None]


def kv_bytes_per_token(shape: ModelShape, setting: Setting) -> int:
    """Bytes by which a sequence's cache grows with each token, once every window is full."""
    growing = [(n, layer) for n, layer in _attention_layers(shape, setting) if layer.window_tokens is None]
    return sum(n * layer.values_per_token(setting.tp) for n, layer in growing) * setting.kv_dtype.value_bytes


def kv_bytes(shape: ModelShape, setting: Setting, context_tokens: int) -> int:
    """Bytes of cache of one sequence; windowed layers stop at their window."""
    values = 0
    for count, layer in _attention_layers(shape, setting):
        tokens = context_tokens if layer.window_tokens is None else min(context_tokens, layer.window_tokens)
        values += count * layer.values_per_token(setting.tp) * tokens
    return values * setting.kv_dtype.value_bytes


def state_bytes(shape: ModelShape, setting: Setting) -> int:
    """Bytes of the recurrent states of one sequence, convolutions apart; it does not depend on the length."""
    layers = [(group.count, group.recurrent) for group in shape.recurrent_groups() if group.recurrent is not None]
    return sum(n * layer.state_values(setting.tp) for n, layer in layers) * setting.state_dtype.value_bytes


def conv_bytes(shape: ModelShape, setting: Setting) -> int:
    """Bytes of the short convolutions' inputs of one sequence; vLLM keeps a row more for each draft token."""
    extra_rows = setting.draft_tokens if setting.engine is Engine.VLLM else 0
    layers = [(group.count, group.recurrent) for group in shape.recurrent_groups() if group.recurrent is not None]
    return sum(n * layer.conv_values(setting.tp, extra_rows) for n, layer in layers) * setting.conv_value_bytes


def snapshot_bytes(shape: ModelShape, setting: Setting) -> int:
    """Bytes of one state of the whole model: what a cached snapshot, a fork, or a running sequence costs."""
    return state_bytes(shape, setting) + conv_bytes(shape, setting)


def sequence_bytes(shape: ModelShape, setting: Setting, context_tokens: int) -> SequenceBytes:
    """What one sequence keeps on one rank (setting.tp = 1: altogether), its snapshots and draft states included."""
    states = 1 + setting.draft_states + setting.snapshots
    return SequenceBytes(
        context_tokens=context_tokens,
        kv_bytes=kv_bytes(shape, setting, context_tokens),
        state_bytes=states * snapshot_bytes(shape, setting),
        all_attention_bytes=all_attention_bytes(shape, setting, context_tokens),
    )


def _own_attention(shape: ModelShape) -> Attention | None:
    """The attention that would stand in for the model's other layers; None if it has no growing attention."""
    for group in shape.attention_groups():
        if group.attention is not None and group.attention.window_tokens is None:
            return group.attention
    return None


def _replaceable_layers(shape: ModelShape) -> int:
    """Layers that "all layers attention" would replace; a parallel hybrid's layers attend already."""
    return sum(group.count for group in shape.recurrent_groups() if group.attention is None)


def all_attention_bytes(shape: ModelShape, setting: Setting, context_tokens: int) -> int | None:
    """Bytes of a sequence if every layer attended over everything as the model's full attention layers do.

    None for a model without such a layer.
    """
    own = _own_attention(shape)
    if own is None:
        return None
    layers = sum(count for count, _ in _attention_layers(shape, setting)) + _replaceable_layers(shape)
    return layers * own.values_per_token(setting.tp) * context_tokens * setting.kv_dtype.value_bytes


def break_even_tokens(shape: ModelShape, setting: Setting, *, with_conv: bool = False) -> int | None:
    """The length at which a recurrent layer's state weighs as much as the attention layer it stands for.

    State bytes divided by the cache bytes a token of as many attention layers, to the nearest token; convolution
    state only if asked. A windowed model breaks even at its window. None where nothing is replaced.
    """
    own, replaced = _own_attention(shape), _replaceable_layers(shape)
    if own is None:
        return None
    if replaced:
        saved_per_token = replaced * own.values_per_token(setting.tp) * setting.kv_dtype.value_bytes
        fixed = state_bytes(shape, setting) + (conv_bytes(shape, setting) if with_conv else 0)
        return round(fixed / saved_per_token)
    windows = [group.attention.window_tokens for group in shape.attention_groups() if group.attention is not None]
    bounded = [window for window in windows if window is not None]
    return max(bounded) if bounded else None
