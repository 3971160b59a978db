"""Qwen3-Next and Qwen3.5: gated delta net layers with a gated full attention layer every few."""

from __future__ import annotations

from harness.memory.counting import embeddings, gated_mlp, grouped_attention, mixture
from harness.memory.fields import ConfigError, Fields
from harness.memory.parameters import Component, Part, whole
from harness.memory.shape import Attention, LayerGroup, LayerKind, ModelShape, Recurrent

KINDS = {"linear_attention", "full_attention"}


def _full_layers(fields: Fields) -> int:
    layers, types = fields.whole("num_hidden_layers"), fields.texts("layer_types")
    if types is None:
        return layers // fields.whole("full_attention_interval")
    if len(types) != layers or not set(types) <= KINDS:
        raise ConfigError(f"{fields.family}: layer_types names {len(types)} layers as {sorted(set(types))}")
    return types.count("full_attention")


def read(fields: Fields, name: str) -> ModelShape:
    """Layers of a Qwen3-Next or Qwen3.5 (also 3.6, 3.8) config."""
    fields.require("num_hidden_layers", "num_key_value_heads", "head_dim", "linear_conv_kernel_dim")
    full, draft = _full_layers(fields), fields.whole_or("mtp_num_hidden_layers", 0)
    attention = Attention(
        kind=LayerKind.FULL,
        cache_heads=fields.whole("num_key_value_heads"),
        values_per_head=2 * fields.whole("head_dim"),
    )
    state = Recurrent(
        kind=LayerKind.GATED_DELTA,
        heads=fields.whole("linear_num_value_heads"),
        values_per_head=fields.whole("linear_key_head_dim") * fields.whole("linear_value_head_dim"),
        conv_rows=fields.whole("linear_conv_kernel_dim") - 1,
        conv_channels_per_head=fields.whole("linear_value_head_dim"),
        conv_groups=fields.whole("linear_num_key_heads"),
        conv_channels_per_group=2 * fields.whole("linear_key_head_dim"),
    )
    return ModelShape(
        name=name,
        family="Qwen3-Next / Qwen3.5",
        groups=(
            LayerGroup(count=fields.whole("num_hidden_layers") - full, recurrent=state),
            LayerGroup(count=full, attention=attention),
        ),
        mtp=LayerGroup(count=draft, attention=attention) if draft else None,
        max_context_tokens=fields.whole_or_none("max_position_embeddings"),
        declared_state_dtype=fields.text("mamba_ssm_dtype"),
    )


def count(fields: Fields) -> tuple[Component, ...]:
    """Parameters by part, after modeling_qwen3_next.py; the MTP layer is left out, as published totals leave it."""
    layers, hidden, full = fields.whole("num_hidden_layers"), fields.whole("hidden_size"), _full_layers(fields)
    head_dim = fields.whole("head_dim")
    output_gate = hidden * fields.whole("num_attention_heads") * head_dim
    attention = grouped_attention(fields, head_dim=head_dim) + output_gate + 2 * head_dim
    return (
        *embeddings(fields),
        whole(Part.ATTENTION, full * attention),
        whole(Part.RECURRENT, (layers - full) * _delta_net(fields)),
        *_feed_forward(fields, layers),
        whole(Part.NORMS, (2 * layers + 1) * hidden),
    )


def _delta_net(fields: Fields) -> int:
    hidden, heads = fields.whole("hidden_size"), fields.whole("linear_num_value_heads")
    keys = fields.whole("linear_num_key_heads") * fields.whole("linear_key_head_dim")
    values = heads * fields.whole("linear_value_head_dim")
    projections = hidden * (2 * keys + 2 * values + 2 * heads) + values * hidden
    convolution = (2 * keys + values) * fields.whole("linear_conv_kernel_dim")
    return projections + convolution + 2 * heads + fields.whole("linear_value_head_dim")


def _feed_forward(fields: Fields, layers: int) -> tuple[Component, ...]:
    hidden, experts = fields.whole("hidden_size"), fields.whole_or_none("num_experts")
    if not experts:
        return (whole(Part.DENSE, layers * gated_mlp(hidden, fields.whole("intermediate_size"))),)
    return mixture(
        layers,
        hidden=hidden,
        experts=experts,
        active=fields.whole("num_experts_per_tok"),
        per_expert=gated_mlp(hidden, fields.whole("moe_intermediate_size")),
        shared=gated_mlp(hidden, fields.whole("shared_expert_intermediate_size")) + hidden,
        router_bias=False,
    )
