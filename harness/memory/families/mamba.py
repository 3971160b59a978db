"""Mamba and its hybrids: Nemotron-H, Falcon-H1, Granite 4 hybrid, Jamba, and Mamba-2 alone."""

from __future__ import annotations

from harness.memory.families.dense import cache
from harness.memory.fields import ConfigError, Fields
from harness.memory.shape import LayerGroup, LayerKind, ModelShape, Recurrent

# Nemotron-H's pattern, a letter a layer; a feed-forward or expert layer keeps nothing.
PATTERN_LETTERS = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}


def mamba2_state(*, heads: int, head_dim: int, state: int, groups: int, kernel: int) -> Recurrent:
    """The state of one Mamba-2 layer: heads x head_dim x state, a convolution over x, B and C."""
    return Recurrent(
        kind=LayerKind.MAMBA2,
        heads=heads,
        values_per_head=head_dim * state,
        conv_rows=kernel - 1,
        conv_channels_per_head=head_dim,
        conv_groups=groups,
        conv_channels_per_group=2 * state,
    )


def pattern(fields: Fields) -> str:
    """Nemotron-H's layers as letters, from `hybrid_override_pattern` or the list `layers_block_type`."""
    text, listed = fields.text("hybrid_override_pattern"), fields.texts("layers_block_type")
    if text is None:
        if listed is None or not set(listed) <= set(PATTERN_LETTERS):
            raise ConfigError(f"{fields.family}: neither hybrid_override_pattern nor a known layers_block_type")
        text = "".join(PATTERN_LETTERS[item] for item in listed)
    if not set(text) <= set(PATTERN_LETTERS.values()):
        raise ConfigError(f"{fields.family}: hybrid_override_pattern has letters besides M, *, - and E: {text}")
    layers = fields.whole_or_none("num_hidden_layers")
    if layers not in (None, len(text)):
        raise ConfigError(f"{fields.family}: {len(text)} letters of pattern for {layers} layers")
    return text


def read_nemotron(fields: Fields, name: str) -> ModelShape:
    """Layers of a Nemotron-H config."""
    fields.require("mamba_num_heads", "mamba_head_dim", "num_key_value_heads")
    letters = pattern(fields)
    state = mamba2_state(
        heads=fields.whole("mamba_num_heads"),
        head_dim=fields.whole("mamba_head_dim"),
        state=fields.whole("ssm_state_size"),
        groups=fields.first("n_groups", "mamba_num_groups"),
        kernel=fields.whole("conv_kernel"),
    )
    return ModelShape(
        name=name,
        family="Nemotron-H",
        groups=(
            LayerGroup(count=letters.count("M"), recurrent=state),
            LayerGroup(count=letters.count("*"), attention=cache(fields)),
        ),
        max_context_tokens=fields.whole_or_none("max_position_embeddings"),
        declared_state_dtype=fields.text("mamba_ssm_cache_dtype"),
    )


def granite_state(fields: Fields) -> Recurrent:
    """The Mamba-2 state as Falcon-H1 and Granite spell it."""
    fields.require("mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_d_conv", "mamba_n_groups")
    return mamba2_state(
        heads=fields.whole("mamba_n_heads"),
        head_dim=fields.whole("mamba_d_head"),
        state=fields.whole("mamba_d_state"),
        groups=fields.whole("mamba_n_groups"),
        kernel=fields.whole("mamba_d_conv"),
    )


def read_falcon(fields: Fields, name: str) -> ModelShape:
    """Layers of a Falcon-H1 config: attention and Mamba-2 side by side in each."""
    fields.require("num_hidden_layers", "num_key_value_heads")
    layer = LayerGroup(
        count=fields.whole("num_hidden_layers"), attention=cache(fields), recurrent=granite_state(fields)
    )
    return ModelShape(
        name=name,
        family="Falcon-H1",
        groups=(layer,),
        max_context_tokens=fields.whole_or_none("max_position_embeddings"),
    )


def granite_attention_layers(fields: Fields) -> int:
    """How many of Granite's layers attend."""
    types = fields.texts("layer_types")
    if types is None or len(types) != fields.whole("num_hidden_layers") or not set(types) <= {"mamba", "attention"}:
        raise ConfigError(f"{fields.family}: layer_types does not name each layer mamba or attention")
    return types.count("attention")


def read_granite(fields: Fields, name: str) -> ModelShape:
    """Layers of a Granite 4 hybrid config; one that lists attention only keeps no state."""
    fields.require("num_hidden_layers", "layer_types", "num_key_value_heads")
    attending = granite_attention_layers(fields)
    stateful = fields.whole("num_hidden_layers") - attending
    groups: tuple[LayerGroup, ...] = (LayerGroup(count=attending, attention=cache(fields)),)
    if stateful:
        groups = (LayerGroup(count=stateful, recurrent=granite_state(fields)), *groups)
    return ModelShape(
        name=name,
        family="Granite 4 hybrid",
        groups=groups,
        max_context_tokens=fields.whole_or_none("max_position_embeddings"),
    )


def jamba_attention_layers(fields: Fields) -> int:
    """How many of Jamba's layers attend: those at `attn_layer_offset` of every `attn_layer_period`."""
    period, offset = fields.whole("attn_layer_period"), fields.whole("attn_layer_offset")
    return sum(1 for layer in range(fields.whole("num_hidden_layers")) if layer % period == offset)


def read_jamba(fields: Fields, name: str) -> ModelShape:
    """Layers of a Jamba config: Mamba-1, whose state is a row of `mamba_d_state` values a channel."""
    fields.require("num_hidden_layers", "attn_layer_period", "attn_layer_offset", "mamba_expand", "mamba_d_state")
    attending = jamba_attention_layers(fields)
    channels = fields.whole("mamba_expand") * fields.whole("hidden_size")
    state = Recurrent(
        kind=LayerKind.MAMBA1,
        heads=channels,
        values_per_head=fields.whole("mamba_d_state"),
        conv_rows=fields.whole("mamba_d_conv") - 1,
        conv_channels_per_head=1,
    )
    return ModelShape(
        name=name,
        family="Jamba",
        groups=(
            LayerGroup(count=fields.whole("num_hidden_layers") - attending, recurrent=state),
            LayerGroup(count=attending, attention=cache(fields)),
        ),
        max_context_tokens=fields.whole_or_none("max_position_embeddings"),
    )


def read_mamba2(fields: Fields, name: str) -> ModelShape:
    """Layers of a Mamba-2 config: no attention at all."""
    fields.require("num_hidden_layers", "num_heads", "head_dim", "state_size", "n_groups", "conv_kernel")
    state = mamba2_state(
        heads=fields.whole("num_heads"),
        head_dim=fields.whole("head_dim"),
        state=fields.whole("state_size"),
        groups=fields.whole("n_groups"),
        kernel=fields.whole("conv_kernel"),
    )
    return ModelShape(
        name=name,
        family="Mamba-2",
        groups=(LayerGroup(count=fields.whole("num_hidden_layers"), recurrent=state),),
        max_context_tokens=fields.whole_or_none("max_position_embeddings"),
    )
