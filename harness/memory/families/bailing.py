"""Ling and Ring (Bailing): groups of linear layers closed by an MLA layer; KDA since V3, lightning attention before."""

from __future__ import annotations

from harness.memory.counting import embeddings, gated_mlp, mixture, mla
from harness.memory.fields import Fields
from harness.memory.parameters import Component, Part, whole
from harness.memory.shape import Attention, LayerGroup, LayerKind, ModelShape, Recurrent


def latent_attention(fields: Fields) -> Attention:
    """The cache of one MLA layer; `use_mla_nope` says that nothing rotates, so there is no RoPE key."""
    rope = 0 if fields.flag("use_mla_nope", False) else fields.whole("qk_rope_head_dim")
    return Attention(kind=LayerKind.MLA, cache_heads=1, values_per_head=fields.whole("kv_lora_rank") + rope)


def kda(heads: int, head_dim: int, kernel: int) -> Recurrent:
    """The state of one Kimi delta attention layer: a square matrix a head, convolutions before q, k and v."""
    return Recurrent(
        kind=LayerKind.KDA,
        heads=heads,
        values_per_head=head_dim * head_dim,
        conv_rows=kernel - 1,
        conv_channels_per_head=3 * head_dim,
    )


def mla_layers(fields: Fields) -> int:
    """How many of the layers are MLA: the last of each group, and every layer of a trailing partial group (vLLM)."""
    layers, group = fields.whole("num_hidden_layers"), fields.whole("layer_group_size")
    return layers // group + layers % group


def read(fields: Fields, name: str) -> ModelShape:
    """Layers of a V3 (KDA, told by `short_conv_kernel_size`) or V2.5 (lightning) config."""
    fields.require("num_hidden_layers", "layer_group_size", "num_attention_heads", "head_dim", "kv_lora_rank")
    heads, head_dim = fields.whole("num_attention_heads"), fields.whole("head_dim")
    kernel = fields.whole_or_none("short_conv_kernel_size")
    lightning = Recurrent(kind=LayerKind.LIGHTNING, heads=heads, values_per_head=head_dim * head_dim)
    attention = latent_attention(fields)
    full = mla_layers(fields)
    draft_layers = fields.whole_or("num_nextn_predict_layers", 0)
    return ModelShape(
        name=name,
        family="Bailing V2.5" if kernel is None else "Bailing V3",
        groups=(
            LayerGroup(
                count=fields.whole("num_hidden_layers") - full,
                recurrent=lightning if kernel is None else kda(heads, head_dim, kernel),
            ),
            LayerGroup(count=full, attention=attention),
        ),
        mtp=LayerGroup(count=draft_layers, attention=attention) if draft_layers else None,
        max_context_tokens=fields.whole_or_none("max_position_embeddings"),
        declared_state_dtype=fields.text("mamba_ssm_dtype"),
    )


def count(fields: Fields) -> tuple[Component, ...]:
    """Parameters by part, after the model's own code (modeling_bailing_moe_v3.py, and V2.5's)."""
    layers, hidden = fields.whole("num_hidden_layers"), fields.whole("hidden_size")
    full, dense = mla_layers(fields), fields.whole("first_k_dense_replace")
    recurrent = _lightning(fields) if fields.whole_or_none("short_conv_kernel_size") is None else _kda(fields)
    return (
        *embeddings(fields),
        whole(Part.ATTENTION, full * _gated_mla(fields)),
        whole(Part.RECURRENT, (layers - full) * recurrent),
        whole(Part.DENSE, dense * gated_mlp(hidden, fields.whole("intermediate_size"))),
        *_experts(fields, layers - dense),
        whole(Part.NORMS, (2 * layers + 1) * hidden),
        whole(Part.MTP, fields.whole_or("num_nextn_predict_layers", 0) * _mtp_layer(fields)),
    )


def _gated_mla(fields: Fields) -> int:
    heads = fields.whole("num_attention_heads")
    gates = {"head_wise": heads, "element_wise": heads * fields.whole("v_head_dim")}
    gate_width = gates.get(fields.text("gated_attention_proj_granularity_type") or "", 0)
    return mla(fields) + fields.whole("hidden_size") * gate_width


def _kda(fields: Fields) -> int:
    hidden, heads, head_dim = fields.whole("hidden_size"), fields.whole("num_attention_heads"), fields.whole("head_dim")
    width = heads * head_dim
    full_rank = fields.flag("no_kda_lora", False)
    gate = hidden * width if full_rank else hidden * head_dim + head_dim * width
    convolutions = 3 * width * fields.whole("short_conv_kernel_size")
    return 4 * hidden * width + 2 * gate + hidden * heads + convolutions + width + heads + head_dim


def _lightning(fields: Fields) -> int:
    hidden, heads, head_dim = fields.whole("hidden_size"), fields.whole("num_attention_heads"), fields.whole("head_dim")
    width = heads * head_dim
    return 5 * hidden * width + width + 2 * head_dim


def _experts(fields: Fields, layers: int) -> tuple[Component, ...]:
    hidden, expert = fields.whole("hidden_size"), fields.whole("moe_intermediate_size")
    shared_width = fields.whole_or("moe_shared_expert_intermediate_size", expert)
    return mixture(
        layers,
        hidden=hidden,
        experts=fields.whole("num_experts"),
        active=fields.whole("num_experts_per_tok"),
        per_expert=gated_mlp(hidden, expert),
        shared=fields.whole_or("num_shared_experts", 0) * gated_mlp(hidden, shared_width),
        router_bias=fields.flag("moe_router_enable_expert_bias", False),
    )


def _mtp_layer(fields: Fields) -> int:
    hidden = fields.whole("hidden_size")
    joining = 2 * hidden * hidden + 3 * hidden
    return _gated_mla(fields) + sum(c.total for c in _experts(fields, 1)) + 2 * hidden + joining
