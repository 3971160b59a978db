"""Kimi-Linear: KDA and MLA layers listed one by one in the config (counted from 1)."""

from __future__ import annotations

from harness.memory.counting import embeddings, gated_mlp, mixture, mla
from harness.memory.families.bailing import kda
from harness.memory.fields import ConfigError, Fields
from harness.memory.parameters import Component, Part, whole
from harness.memory.shape import Attention, LayerGroup, LayerKind, ModelShape


def _lists(fields: Fields) -> tuple[int, int]:
    linear = fields.nested("linear_attn_config")
    recurrent, full = linear.wholes("kda_layers"), linear.wholes("full_attn_layers")
    layers = fields.whole("num_hidden_layers")
    if sorted((*recurrent, *full)) != list(range(1, layers + 1)):
        raise ConfigError(f"{fields.family}: kda_layers and full_attn_layers do not name each of {layers} layers once")
    return len(recurrent), len(full)


def read(fields: Fields, name: str) -> ModelShape:
    """Layers of a Kimi-Linear config. The RoPE key's place is cached even where nothing rotates (`mla_use_nope`)."""
    fields.require("num_hidden_layers", "linear_attn_config", "kv_lora_rank", "qk_rope_head_dim")
    linear = fields.nested("linear_attn_config")
    recurrent, full = _lists(fields)
    latent = fields.whole("kv_lora_rank") + fields.whole("qk_rope_head_dim")
    state = kda(linear.whole("num_heads"), linear.whole("head_dim"), linear.whole("short_conv_kernel_size"))
    return ModelShape(
        name=name,
        family="Kimi-Linear",
        groups=(
            LayerGroup(count=recurrent, recurrent=state),
            LayerGroup(count=full, attention=Attention(kind=LayerKind.MLA, cache_heads=1, values_per_head=latent)),
        ),
        max_context_tokens=fields.whole_or_none("model_max_length"),
        declared_state_dtype=fields.text("mamba_ssm_dtype"),
    )


def count(fields: Fields) -> tuple[Component, ...]:
    """Parameters by part, after modeling_kimi.py."""
    recurrent, full = _lists(fields)
    hidden, dense, layers = fields.whole("hidden_size"), fields.whole("first_k_dense_replace"), recurrent + full
    expert = gated_mlp(hidden, fields.whole("moe_intermediate_size"))
    return (
        *embeddings(fields),
        whole(Part.ATTENTION, full * mla(fields)),
        whole(Part.RECURRENT, recurrent * _kda(fields.nested("linear_attn_config"), hidden)),
        whole(Part.DENSE, dense * gated_mlp(hidden, fields.whole("intermediate_size"))),
        *mixture(
            layers - dense,
            hidden=hidden,
            experts=fields.whole("num_experts"),
            active=fields.whole("num_experts_per_token"),
            per_expert=expert,
            shared=fields.whole_or("num_shared_experts", 0) * expert,
            router_bias=True,
        ),
        whole(Part.NORMS, (2 * layers + 1) * hidden),
    )


def _kda(linear: Fields, hidden: int) -> int:
    heads, head_dim = linear.whole("num_heads"), linear.whole("head_dim")
    width = heads * head_dim
    low_rank_gates = 2 * (hidden * head_dim + head_dim * width)
    convolutions = 3 * width * linear.whole("short_conv_kernel_size")
    return 4 * hidden * width + low_rank_gates + hidden * heads + convolutions + width + heads + head_dim
