"""Parameters of the building blocks that families share, as the models' own code declares them."""

from __future__ import annotations

from harness.memory.fields import Fields
from harness.memory.parameters import Component, Part, whole


def gated_mlp(hidden: int, intermediate: int) -> int:
    """Gate, up and down projections without biases."""
    return 3 * hidden * intermediate


def embeddings(fields: Fields, *, tied_by_default: bool = False) -> tuple[Component, ...]:
    """The input table and, unless it is tied to it, the output head."""
    table = fields.whole("vocab_size") * fields.whole("hidden_size")
    tied = fields.flag("tie_word_embeddings", tied_by_default)
    if tied:
        # One table does both jobs; it is counted where it multiplies.
        return (whole(Part.EMBEDDING, 0), whole(Part.HEAD, table))
    return (whole(Part.EMBEDDING, table), whole(Part.HEAD, table))


def mixture(
    layers: int, *, hidden: int, experts: int, active: int, per_expert: int, shared: int, router_bias: bool
) -> tuple[Component, ...]:
    """`layers` mixture-of-experts layers; per_expert and shared are parameters of one expert and of all shared ones."""
    router = hidden * experts + (experts if router_bias else 0)
    return (
        Component(part=Part.ROUTED, total=layers * experts * per_expert, active=layers * active * per_expert),
        whole(Part.SHARED, layers * shared),
        whole(Part.ROUTER, layers * router),
    )


def mla(fields: Fields) -> int:
    """One multi-head latent attention layer: projections and the norms of its latents, without an output gate."""
    hidden, heads = fields.whole("hidden_size"), fields.whole("num_attention_heads")
    rope, latent = fields.whole("qk_rope_head_dim"), fields.whole("kv_lora_rank")
    nope, value = fields.whole("qk_nope_head_dim"), fields.whole("v_head_dim")
    query_rank = fields.whole_or_none("q_lora_rank")
    query_width = heads * (nope + rope)
    query = hidden * query_width if query_rank is None else query_rank * (hidden + 1 + query_width)
    key_value = hidden * (latent + rope) + latent + latent * heads * (nope + value)
    return query + key_value + heads * value * hidden


def grouped_attention(fields: Fields, *, head_dim: int, qkv_bias: bool = False, output_bias: bool = False) -> int:
    """One attention layer with grouped key-value heads: four projections and their biases."""
    hidden, heads = fields.whole("hidden_size"), fields.whole("num_attention_heads")
    kv_width = fields.whole_or("num_key_value_heads", heads) * head_dim
    width = heads * head_dim
    biases = (width + 2 * kv_width if qkv_bias else 0) + (hidden if output_bias else 0)
    return 2 * hidden * width + 2 * hidden * kv_width + biases


def mamba2(
    hidden: int, *, heads: int, head_dim: int, groups: int, state: int, kernel: int, gated_norm: bool = True
) -> int:
    """One Mamba-2 mixer: input and output projections, convolution with bias, A, D, dt bias, and the gated norm."""
    inner = heads * head_dim
    channels = inner + 2 * groups * state
    projections = hidden * (inner + channels + heads) + inner * hidden
    return projections + channels * (kernel + 1) + 3 * heads + (inner if gated_norm else 0)
