"""Plain attention: grouped or multi-head key-value heads in every layer, all of them full or some with a window."""

from __future__ import annotations

from harness.memory.counting import embeddings, gated_mlp, grouped_attention, mixture
from harness.memory.fields import ConfigError, Fields
from harness.memory.parameters import Component, Part, whole
from harness.memory.shape import Attention, LayerGroup, LayerKind, ModelShape

WINDOWED = "sliding_attention"


def head_dim(fields: Fields) -> int:
    """`head_dim`, or the hidden size shared among the heads."""
    return fields.whole_or("head_dim", fields.whole("hidden_size") // fields.whole("num_attention_heads"))


def cache(fields: Fields, window_tokens: int | None = None) -> Attention:
    """The cache of one layer; multi-head attention is grouped attention with as many groups as heads."""
    return Attention(
        kind=LayerKind.FULL if window_tokens is None else LayerKind.SLIDING,
        cache_heads=fields.whole_or("num_key_value_heads", fields.whole("num_attention_heads")),
        values_per_head=2 * head_dim(fields),
        window_tokens=window_tokens,
    )


def read(fields: Fields, name: str) -> ModelShape:
    """Layers of a config whose every layer attends over everything."""
    fields.require("num_hidden_layers", "hidden_size", "num_attention_heads")
    if fields.whole_or_none("sliding_window") and fields.flag("use_sliding_window", True):
        raise ConfigError(f"{fields.family}: sliding_window is set, and the config does not say in which layers")
    return ModelShape(
        name=name,
        family="grouped or multi-head attention",
        groups=(LayerGroup(count=fields.whole("num_hidden_layers"), attention=cache(fields)),),
        max_context_tokens=fields.whole_or_none("max_position_embeddings"),
    )


def read_windowed(fields: Fields, name: str) -> ModelShape:
    """Layers of a config that mixes full and sliding-window layers (Gemma 3, gpt-oss)."""
    fields.require("num_hidden_layers", "hidden_size", "num_attention_heads", "sliding_window")
    layers, windowed = fields.whole("num_hidden_layers"), _windowed_layers(fields)
    return ModelShape(
        name=name,
        family="sliding window",
        groups=(
            LayerGroup(count=windowed, attention=cache(fields, fields.whole("sliding_window"))),
            LayerGroup(count=layers - windowed, attention=cache(fields)),
        ),
        max_context_tokens=fields.whole_or_none("max_position_embeddings"),
    )


def _windowed_layers(fields: Fields) -> int:
    layers, types = fields.whole("num_hidden_layers"), fields.texts("layer_types")
    if types is None:
        return layers - layers // fields.whole("sliding_window_pattern")
    if len(types) != layers or not set(types) <= {WINDOWED, "full_attention"}:
        raise ConfigError(f"{fields.family}: layer_types names {len(types)} layers as {sorted(set(types))}")
    return types.count(WINDOWED)


def count(fields: Fields) -> tuple[Component, ...]:
    """Parameters by part of a Llama, Mistral, Qwen2 or Qwen3 model, with or without experts."""
    layers, hidden = fields.whole("num_hidden_layers"), fields.whole("hidden_size")
    bias = fields.flag("attention_bias", False)
    qwen2 = fields.text("model_type") == "qwen2"
    per_head_norms = 2 * head_dim(fields) if fields.text("model_type") in ("qwen3", "qwen3_moe") else 0
    attention = grouped_attention(fields, head_dim=head_dim(fields), qkv_bias=bias or qwen2, output_bias=bias)
    return (
        *embeddings(fields),
        whole(Part.ATTENTION, layers * (attention + per_head_norms)),
        *_feed_forward(fields, layers, hidden),
        whole(Part.NORMS, (2 * layers + 1) * hidden),
    )


def _feed_forward(fields: Fields, layers: int, hidden: int) -> tuple[Component, ...]:
    if fields.text("model_type") not in ("qwen3_moe", "mixtral"):
        return (whole(Part.DENSE, layers * gated_mlp(hidden, fields.whole("intermediate_size"))),)
    width = fields.first("moe_intermediate_size", "intermediate_size")
    return mixture(
        layers,
        hidden=hidden,
        experts=fields.first("num_experts", "num_local_experts"),
        active=fields.whole("num_experts_per_tok"),
        per_expert=gated_mlp(hidden, width),
        shared=0,
        router_bias=False,
    )


def count_gemma3(fields: Fields) -> tuple[Component, ...]:
    """Parameters by part of a Gemma 3 text model: tied table, four norms a layer, norms on queries and keys."""
    layers, hidden = fields.whole("num_hidden_layers"), fields.whole("hidden_size")
    attention = grouped_attention(fields, head_dim=head_dim(fields)) + 2 * head_dim(fields)
    return (
        *embeddings(fields, tied_by_default=True),
        whole(Part.ATTENTION, layers * attention),
        whole(Part.DENSE, layers * gated_mlp(hidden, fields.whole("intermediate_size"))),
        whole(Part.NORMS, (4 * layers + 1) * hidden),
    )


def count_gpt_oss(fields: Fields) -> tuple[Component, ...]:
    """Parameters by part of a gpt-oss model: biases everywhere, one attention sink a head."""
    layers, hidden = fields.whole("num_hidden_layers"), fields.whole("hidden_size")
    width = fields.whole("intermediate_size")
    attention = grouped_attention(fields, head_dim=head_dim(fields), qkv_bias=True, output_bias=True)
    return (
        *embeddings(fields),
        whole(Part.ATTENTION, layers * (attention + fields.whole("num_attention_heads"))),
        *mixture(
            layers,
            hidden=hidden,
            experts=fields.whole("num_local_experts"),
            active=fields.whole("num_experts_per_tok"),
            per_expert=gated_mlp(hidden, width) + 2 * width + hidden,
            shared=0,
            router_bias=True,
        ),
        whole(Part.NORMS, (2 * layers + 1) * hidden),
    )
