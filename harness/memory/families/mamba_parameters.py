"""Parameters of Mamba and its hybrids, after the code of each model."""

from __future__ import annotations

from harness.memory.counting import embeddings, gated_mlp, grouped_attention, mamba2, mixture
from harness.memory.families.dense import head_dim
from harness.memory.families.mamba import granite_attention_layers, jamba_attention_layers, pattern
from harness.memory.fields import Fields
from harness.memory.parameters import Component, Part, whole


def count_nemotron(fields: Fields) -> tuple[Component, ...]:
    """Nemotron-H: one mixer and one norm a layer; feed-forward without gates, experts perhaps in a latent space."""
    letters, hidden = pattern(fields), fields.whole("hidden_size")
    mixer = mamba2(
        hidden,
        heads=fields.whole("mamba_num_heads"),
        head_dim=fields.whole("mamba_head_dim"),
        groups=fields.first("n_groups", "mamba_num_groups"),
        state=fields.whole("ssm_state_size"),
        kernel=fields.whole("conv_kernel"),
    )
    dense = letters.count("-")
    return (
        *embeddings(fields),
        whole(Part.RECURRENT, letters.count("M") * mixer),
        whole(Part.ATTENTION, letters.count("*") * grouped_attention(fields, head_dim=head_dim(fields))),
        whole(Part.DENSE, dense * 2 * hidden * fields.whole("intermediate_size") if dense else 0),
        *(_nemotron_experts(fields, letters.count("E")) if "E" in letters else ()),
        whole(Part.NORMS, (len(letters) + 1) * hidden),
    )


def _nemotron_experts(fields: Fields, layers: int) -> tuple[Component, ...]:
    hidden, latent = fields.whole("hidden_size"), fields.whole_or_none("moe_latent_size")
    shared = 2 * hidden * fields.whole("moe_shared_expert_intermediate_size")
    to_and_from_latent = 0 if latent is None else 2 * hidden * latent
    return mixture(
        layers,
        hidden=hidden,
        experts=fields.whole("n_routed_experts"),
        active=fields.whole("num_experts_per_tok"),
        per_expert=2 * (hidden if latent is None else latent) * fields.whole("moe_intermediate_size"),
        shared=fields.whole_or("n_shared_experts", 1) * shared + to_and_from_latent,
        router_bias=True,
    )


def _granite_mixer(fields: Fields, *, gated_norm: bool) -> int:
    return mamba2(
        fields.whole("hidden_size"),
        heads=fields.whole("mamba_n_heads"),
        head_dim=fields.whole("mamba_d_head"),
        groups=fields.whole("mamba_n_groups"),
        state=fields.whole("mamba_d_state"),
        kernel=fields.whole("mamba_d_conv"),
        gated_norm=gated_norm,
    )


def count_falcon(fields: Fields) -> tuple[Component, ...]:
    """Falcon-H1: both mixers and a gated feed-forward in each layer."""
    layers, hidden = fields.whole("num_hidden_layers"), fields.whole("hidden_size")
    mixer = _granite_mixer(fields, gated_norm=fields.flag("mamba_rms_norm", False))
    return (
        *embeddings(fields),
        whole(Part.ATTENTION, layers * grouped_attention(fields, head_dim=head_dim(fields))),
        whole(Part.RECURRENT, layers * mixer),
        whole(Part.DENSE, layers * gated_mlp(hidden, fields.whole("intermediate_size"))),
        whole(Part.NORMS, (2 * layers + 1) * hidden),
    )


def count_granite(fields: Fields) -> tuple[Component, ...]:
    """Granite 4 hybrid: a shared feed-forward in each layer, and experts beside it where there are any."""
    layers, hidden = fields.whole("num_hidden_layers"), fields.whole("hidden_size")
    attending = granite_attention_layers(fields)
    shared, experts = gated_mlp(hidden, fields.whole("shared_intermediate_size")), fields.whole("num_local_experts")
    feed_forward: tuple[Component, ...] = (whole(Part.DENSE, layers * shared),)
    if experts:
        feed_forward = mixture(
            layers,
            hidden=hidden,
            experts=experts,
            active=fields.whole("num_experts_per_tok"),
            per_expert=gated_mlp(hidden, fields.whole("intermediate_size")),
            shared=shared,
            router_bias=False,
        )
    stateful = layers - attending
    return (
        *embeddings(fields),
        whole(Part.ATTENTION, attending * grouped_attention(fields, head_dim=head_dim(fields))),
        whole(Part.RECURRENT, stateful * _granite_mixer(fields, gated_norm=True) if stateful else 0),
        *feed_forward,
        whole(Part.NORMS, (2 * layers + 1) * hidden),
    )


def count_jamba(fields: Fields) -> tuple[Component, ...]:
    """Jamba: Mamba-1 mixers with norms on dt, B and C; experts in some layers, a plain feed-forward in the others."""
    layers, hidden = fields.whole("num_hidden_layers"), fields.whole("hidden_size")
    attending, sparse = jamba_attention_layers(fields), _jamba_expert_layers(fields)
    expert = gated_mlp(hidden, fields.whole("intermediate_size"))
    return (
        *embeddings(fields),
        whole(Part.ATTENTION, attending * grouped_attention(fields, head_dim=head_dim(fields))),
        whole(Part.RECURRENT, (layers - attending) * _mamba1(fields)),
        whole(Part.DENSE, (layers - sparse) * expert),
        *mixture(
            sparse,
            hidden=hidden,
            experts=fields.whole("num_experts"),
            active=fields.whole("num_experts_per_tok"),
            per_expert=expert,
            shared=0,
            router_bias=False,
        ),
        whole(Part.NORMS, (2 * layers + 1) * hidden),
    )


def _jamba_expert_layers(fields: Fields) -> int:
    period, offset = fields.whole("expert_layer_period"), fields.whole("expert_layer_offset")
    return sum(1 for layer in range(fields.whole("num_hidden_layers")) if layer % period == offset)


def _mamba1(fields: Fields) -> int:
    hidden, state = fields.whole("hidden_size"), fields.whole("mamba_d_state")
    channels = fields.whole("mamba_expand") * hidden
    step = fields.whole_or("mamba_dt_rank", -(-hidden // 16))
    projections = hidden * 2 * channels + channels * (step + 2 * state) + step * channels + channels * hidden
    convolution = channels * (fields.whole("mamba_d_conv") + 1)
    return projections + convolution + channels + channels * state + channels + step + 2 * state


def count_mamba2(fields: Fields) -> tuple[Component, ...]:
    """Mamba-2 alone: one mixer and one norm a layer."""
    layers, hidden = fields.whole("num_hidden_layers"), fields.whole("hidden_size")
    mixer = mamba2(
        hidden,
        heads=fields.whole("num_heads"),
        head_dim=fields.whole("head_dim"),
        groups=fields.whole("n_groups"),
        state=fields.whole("state_size"),
        kernel=fields.whole("conv_kernel"),
    )
    return (
        *embeddings(fields),
        whole(Part.RECURRENT, layers * mixer),
        whole(Part.NORMS, (layers + 1) * hidden),
    )
