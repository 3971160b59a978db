"""DeepSeek V2 and V3, and Kimi K2: MLA in every layer, a mixture of experts after the first few."""

from __future__ import annotations

from harness.memory.counting import embeddings, gated_mlp, mixture, mla
from harness.memory.fields import Fields
from harness.memory.parameters import Component, Part, whole
from harness.memory.shape import Attention, LayerGroup, LayerKind, ModelShape


def read(fields: Fields, name: str) -> ModelShape:
    """Layers of a DeepSeek V2/V3 or Kimi K2 config."""
    fields.require("num_hidden_layers", "kv_lora_rank", "qk_rope_head_dim")
    latent = fields.whole("kv_lora_rank") + fields.whole("qk_rope_head_dim")
    attention = Attention(kind=LayerKind.MLA, cache_heads=1, values_per_head=latent)
    draft = fields.whole_or("num_nextn_predict_layers", 0)
    return ModelShape(
        name=name,
        family="DeepSeek V2/V3, Kimi K2",
        groups=(LayerGroup(count=fields.whole("num_hidden_layers"), attention=attention),),
        mtp=LayerGroup(count=draft, attention=attention) if draft else None,
        max_context_tokens=fields.whole_or_none("max_position_embeddings"),
    )


def count(fields: Fields) -> tuple[Component, ...]:
    """Parameters by part, after modeling_deepseek.py (V3's router has a bias for each expert, V2's has none)."""
    layers, hidden = fields.whole("num_hidden_layers"), fields.whole("hidden_size")
    dense = fields.whole("first_k_dense_replace")
    experts = _experts(fields, layers - dense)
    joining = 2 * hidden * hidden + 3 * hidden
    draft = mla(fields) + sum(c.total for c in _experts(fields, 1)) + 2 * hidden + joining
    return (
        *embeddings(fields),
        whole(Part.ATTENTION, layers * mla(fields)),
        whole(Part.DENSE, dense * gated_mlp(hidden, fields.whole("intermediate_size"))),
        *experts,
        whole(Part.NORMS, (2 * layers + 1) * hidden),
        whole(Part.MTP, fields.whole_or("num_nextn_predict_layers", 0) * draft),
    )


def _experts(fields: Fields, layers: int) -> tuple[Component, ...]:
    hidden = fields.whole("hidden_size")
    expert = gated_mlp(hidden, fields.whole("moe_intermediate_size"))
    return mixture(
        layers,
        hidden=hidden,
        experts=fields.whole("n_routed_experts"),
        active=fields.whole("num_experts_per_tok"),
        per_expert=expert,
        shared=fields.whole_or("n_shared_experts", 0) * expert,
        router_bias=fields.text("topk_method") in (None, "noaux_tc"),
    )
