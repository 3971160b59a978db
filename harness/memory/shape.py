"""What a model keeps in memory while it serves: layers by kind, counted in values, before any data type is chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class LayerKind(StrEnum):
    """How a layer mixes tokens, in the words its papers use."""

    MLA = "MLA"
    FULL = "full attention"
    SLIDING = "sliding window"
    KDA = "KDA"
    LIGHTNING = "lightning"
    GATED_DELTA = "gated delta net"
    MAMBA2 = "Mamba-2"
    MAMBA1 = "Mamba-1"


class SplitError(ValueError):
    """The model's heads cannot be split over this many ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """The cache of one attention layer.

    cache_heads: heads whose keys and values are kept; 1 for MLA, whose latent every rank needs whole.
    values_per_head: values one head keeps per token (keys and values; MLA: latent and RoPE key).
    window_tokens: the cache stops growing there; None grows without end.
    """

    kind: LayerKind
    cache_heads: int
    values_per_head: int
    window_tokens: int | None = None

    def values_per_token(self, tp: int = 1) -> int:
        """Values per token that one of `tp` ranks keeps: heads split, an MLA latent is whole on each; SplitError."""
        if self.kind is LayerKind.MLA:
            return self.values_per_head
        if self.cache_heads % tp and tp % self.cache_heads:
            raise SplitError(f"{self.cache_heads} key-value heads do not split over {tp} ranks")
        return max(self.cache_heads // tp, 1) * self.values_per_head


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrent:
    """The fixed state of one recurrent layer, split over ranks by head.

    values_per_head: recurrent state of one head. conv_rows: inputs the short convolution keeps (its kernel less one;
    0: no convolution). Convolution channels: `conv_channels_per_head` follow the heads, `conv_channels_per_group` the
    groups that several heads share (key heads, or Mamba-2's B and C).
    """

    kind: LayerKind
    heads: int
    values_per_head: int
    conv_rows: int = 0
    conv_channels_per_head: int = 0
    conv_groups: int = 0
    conv_channels_per_group: int = 0

    def state_values(self, tp: int = 1) -> int:
        """Recurrent state values of one of `tp` ranks; SplitError if the heads do not divide."""
        return self._rank_heads(tp) * self.values_per_head

    def conv_values(self, tp: int = 1, extra_rows: int = 0) -> int:
        """Convolution state values of one of `tp` ranks; speculation keeps one row more per draft token."""
        if self.conv_rows == 0:
            return 0
        groups = self.conv_groups if tp == 1 else -(-self.conv_groups // tp)
        channels = self._rank_heads(tp) * self.conv_channels_per_head + groups * self.conv_channels_per_group
        return (self.conv_rows + extra_rows) * channels

    def _rank_heads(self, tp: int) -> int:
        if self.heads % tp:
            raise SplitError(f"{self.heads} recurrent heads do not split over {tp} ranks")
        return self.heads // tp


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGroup:
    """`count` layers alike; a layer of a parallel hybrid has both parts, a plain feed-forward layer is not listed."""

    count: int
    attention: Attention | None = None
    recurrent: Recurrent | None = None

    def __post_init__(self) -> None:
        if self.attention is None and self.recurrent is None:
            raise ValueError("a layer group keeps attention, a state, or both")
        if self.count < 0:
            raise ValueError(f"a layer group of {self.count} layers")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A model's layers as far as they keep anything per token or per sequence.

    mtp: the multi-token prediction layers, which cache only under speculation; None if the model has none.
    max_context_tokens: what the config allows; None if it does not say. declared_state_dtype: the config's own word.
    """

    name: str
    family: str
    groups: tuple[LayerGroup, ...]
    mtp: LayerGroup | None = None
    max_context_tokens: int | None = None
    declared_state_dtype: str | None = None

    def recurrent_groups(self) -> tuple[LayerGroup, ...]:
        """The groups that keep a state."""
        return tuple(group for group in self.groups if group.recurrent is not None and group.count > 0)

    def attention_groups(self) -> tuple[LayerGroup, ...]:
        """The groups that keep a cache."""
        return tuple(group for group in self.groups if group.attention is not None and group.count > 0)

    def layers_by_kind(self) -> Mapping[str, int]:
        """Layers of each kind; a layer that has two kinds counts under both."""
        counts: Counter[str] = Counter()
        for group in self.groups:
            for part in (group.recurrent, group.attention):
                if part is not None and group.count:
                    counts[part.kind] += group.count
        return counts

    def heads_divide(self, tp: int) -> bool:
        """Whether every layer splits over `tp` ranks."""
        try:
            for group in self.groups:
                if group.attention is not None:
                    group.attention.values_per_token(tp)
                if group.recurrent is not None:
                    group.recurrent.state_values(tp)
        except SplitError:
            return False
        return True
