"""Sizes of an embedded model: the Ling-3 block structure in miniature."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Arch = Literal["hybrid", "attention"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Sizes and constants of one model.

    Layer ``l`` is full attention (MLA) when ``(l + 1) % group_size == 0`` or when it lies in the tail that does not
    fill a group, and linear attention (KDA) otherwise; ``group_size`` 8 gives Ling's 7:1, 1 makes every layer MLA.
    ``query_rank`` None projects queries directly, without a low-rank step.

    Raises:
        ValueError: a size is not positive or sizes do not fit together.
    """

    vocab_size: int = 512
    hidden_size: int = 128
    layers: int = 6
    group_size: int = 6
    heads: int = 2
    head_dim: int = 64
    conv_kernel: int = 4
    gate_lower_bound: float = -5.0
    kv_rank: int = 96
    query_rank: int | None = None
    nope_dim: int = 40
    rope_dim: int = 16
    value_dim: int = 40
    rope_theta: float = 6e5
    dense_layers: int = 1
    dense_dim: int = 256
    experts: int = 8
    experts_per_token: int = 2
    expert_groups: int = 1
    groups_per_token: int = 1
    expert_dim: int = 32
    routed_scale: float = 1.0
    mtp_layers: int = 1
    norm_eps: float = 1e-6
    context_length: int = 16384

    def __post_init__(self) -> None:
        widths = (self.vocab_size, self.hidden_size, self.heads, self.head_dim, self.kv_rank)
        if min(*widths, self.layers, self.group_size, self.context_length) < 1:
            raise ValueError("every size must be at least 1")
        if self.conv_kernel != 4:
            raise ValueError("the short convolution has kernel 4")
        if self.rope_dim % 2 or self.rope_dim < 2:
            raise ValueError("rope_dim must be even and positive")
        if self.experts % self.expert_groups or not 1 <= self.groups_per_token <= self.expert_groups:
            raise ValueError("experts must divide into expert_groups, of which groups_per_token are kept")
        if self.expert_groups > 1 and self.experts // self.expert_groups < 2:
            raise ValueError("an expert group needs two experts: its score is the sum of its best two")
        if self.experts_per_token > self.experts // self.expert_groups * self.groups_per_token:
            raise ValueError("experts_per_token exceeds the experts in the kept groups")
        if self.mtp_layers not in (0, 1):
            raise ValueError("mtp_layers must be 0 or 1")

    def is_attention(self, layer: int) -> bool:
        """Whether a layer (MTP layers come after the last one) is full attention."""
        tail_start = self.layers // self.group_size * self.group_size
        return layer >= tail_start or (layer + 1) % self.group_size == 0

    @property
    def kda_layers(self) -> int:
        """Number of linear-attention layers."""
        return sum(not self.is_attention(layer) for layer in range(self.layers))

    @property
    def mla_layers(self) -> int:
        """Number of full-attention layers, the MTP layer left out."""
        return self.layers - self.kda_layers

    @property
    def latent_layers(self) -> int:
        """Number of layers that keep a latent per token: full attention and MTP."""
        return self.mla_layers + self.mtp_layers

    @property
    def latent_dim(self) -> int:
        """Floats kept per token and latent layer: the latent and its rotary key."""
        return self.kv_rank + self.rope_dim

    @property
    def kda_dim(self) -> int:
        """Width of q, k, v, decay and gate of a KDA layer, all heads together."""
        return self.heads * self.head_dim

    @property
    def query_dim(self) -> int:
        """Width of one attention head's query: the part without and the part with rotary position."""
        return self.nope_dim + self.rope_dim

    @property
    def latent_bytes(self) -> int:
        """Bytes one token takes in the latent cache, all latent layers together."""
        return 4 * self.latent_layers * self.latent_dim

    @property
    def state_bytes(self) -> int:
        """Bytes of one sequence's recurrent and convolution state and its last hidden vector, in float32."""
        recurrent = self.heads * self.head_dim * self.head_dim
        conv = (self.conv_kernel - 1) * 3 * self.kda_dim
        return 4 * (self.kda_layers * (recurrent + conv) + self.hidden_size)


def preset(arch: Arch) -> ModelConfig:
    """The shipped model of an architecture; the attention twin differs in ``group_size`` alone."""
    hybrid = ModelConfig()
    return hybrid if arch == "hybrid" else replace(hybrid, group_size=1)
