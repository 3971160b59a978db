"""Random weights of any size, for tests."""

from __future__ import annotations

import numpy as np

from harness.reference.config import ModelConfig
from harness.reference.model.arrays import F32


def random_weights(config: ModelConfig, seed: int = 0, *, residual_scale: float = 0.5) -> dict[str, F32]:
    """Gaussian weights under the published names; ``residual_scale`` is how far a layer moves the residual stream."""
    return _Draw(config, seed, residual_scale).model()


class _Draw:
    """One generator, drawn from in a fixed order."""

    def __init__(self, config: ModelConfig, seed: int, residual_scale: float) -> None:
        self._config, self._rng, self._residual = config, np.random.default_rng(seed), residual_scale
        self._weights: dict[str, F32] = {}

    def model(self) -> dict[str, F32]:
        """All tensors."""
        c = self._config
        self._weights["model.word_embeddings.weight"] = self._normal((c.vocab_size, c.hidden_size), 1.0)
        self._linear("lm_head", c.vocab_size, c.hidden_size, 1.5)
        self._ones("model.norm", c.hidden_size)
        for layer in range(c.layers + c.mtp_layers):
            self._layer(layer)
        return self._weights

    def _layer(self, layer: int) -> None:
        c, p = self._config, f"model.layers.{layer}."
        self._ones(p + "input_layernorm", c.hidden_size)
        self._ones(p + "post_attention_layernorm", c.hidden_size)
        if c.is_attention(layer):
            self._mla(p + "attention.")
        else:
            self._kda(p + "attention.")
        if layer < c.dense_layers:
            self._swiglu(p + "mlp.", c.dense_dim)
        else:
            self._linear(p + "mlp.gate", c.experts, c.hidden_size)
            self._weights[p + "mlp.gate.expert_bias"] = self._normal((c.experts,), 0.01)
            for expert in range(c.experts):
                self._swiglu(f"{p}mlp.experts.{expert}.", c.expert_dim)
            self._swiglu(p + "mlp.shared_experts.", c.expert_dim)
        if layer >= c.layers:
            self._linear(p + "eh_proj", c.hidden_size, 2 * c.hidden_size)
            for norm in ("enorm", "hnorm", "final_layernorm"):
                self._ones(p + norm, c.hidden_size)

    def _kda(self, a: str) -> None:
        c, inner = self._config, self._config.kda_dim
        for name in "qkv":
            self._linear(f"{a}{name}_proj", inner, c.hidden_size)
            self._weights[f"{a}{name}_conv1d.weight"] = self._normal((inner, 1, c.conv_kernel), 0.5)
        self._linear(a + "b_proj", c.heads, c.hidden_size)
        self._linear(a + "f_proj", inner, c.hidden_size, 0.5)
        self._linear(a + "g_proj", inner, c.hidden_size)
        self._weights[a + "dt_bias"] = self._normal((inner,), 0.5) - np.float32(4)
        self._weights[a + "A_log"] = np.log(self._rng.uniform(0.2, 1.0, c.heads)).astype(np.float32)
        self._ones(a + "o_norm", c.head_dim)
        self._linear(a + "o_proj", c.hidden_size, inner, self._residual)

    def _mla(self, a: str) -> None:
        c, query = self._config, self._config.heads * self._config.query_dim
        if c.query_rank is None:
            self._linear(a + "q_proj", query, c.hidden_size)
        else:
            self._linear(a + "q_a_proj", c.query_rank, c.hidden_size)
            self._ones(a + "q_a_layernorm", c.query_rank)
            self._linear(a + "q_b_proj", query, c.query_rank)
        self._linear(a + "kv_a_proj_with_mqa", c.latent_dim, c.hidden_size)
        self._ones(a + "kv_a_layernorm", c.kv_rank)
        self._linear(a + "kv_b_proj", c.heads * (c.nope_dim + c.value_dim), c.kv_rank)
        self._linear(a + "g_proj", c.heads, c.hidden_size)
        self._linear(a + "dense", c.hidden_size, c.heads * c.value_dim, 3 * self._residual)

    def _swiglu(self, prefix: str, width: int) -> None:
        self._linear(prefix + "gate_proj", width, self._config.hidden_size)
        self._linear(prefix + "up_proj", width, self._config.hidden_size)
        self._linear(prefix + "down_proj", self._config.hidden_size, width, self._residual)

    def _linear(self, name: str, rows: int, columns: int, scale: float = 1.0) -> None:
        self._weights[name + ".weight"] = self._normal((rows, columns), scale / columns**0.5)

    def _ones(self, name: str, width: int) -> None:
        self._weights[name + ".weight"] = np.ones(width, np.float32)

    def _normal(self, shape: tuple[int, ...], scale: float) -> F32:
        return (self._rng.standard_normal(shape) * scale).astype(np.float32)
