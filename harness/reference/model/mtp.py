"""The multi-token-prediction layer: one attention block that drafts the token after the next."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.reference.config import ModelConfig
from harness.reference.model.arithmetic import Arithmetic
from harness.reference.model.arrays import F32, I64
from harness.reference.model.mla import MlaLayer, Rope
from harness.reference.model.moe import MoeFeedForward
from harness.reference.model.numerics import rms_norm


class MtpLayer:
    """``block(eh_proj [enorm(embedding of token i + 1); hnorm(hidden of token i)])`` with a final norm of its own.

    The hidden vector is the main model's after its final norm; drafts read the shared output head.
    """

    def __init__(self, config: ModelConfig, weights: Mapping[str, F32], arithmetic: Arithmetic, rope: Rope) -> None:
        prefix = f"model.layers.{config.layers}."
        self._eps, self._arithmetic = config.norm_eps, arithmetic
        norms = np.concatenate([weights[prefix + "enorm.weight"], weights[prefix + "hnorm.weight"]])
        self._w_in: F32 = np.ascontiguousarray((weights[prefix + "eh_proj.weight"] * norms).T)
        self._attention = MlaLayer(config, weights, prefix, arithmetic, rope)
        self._feed_forward = MoeFeedForward(config, weights, prefix, arithmetic)
        self._final_norm: F32 = weights[prefix + "final_layernorm.weight"]

    def entries(self, embedded: F32, hidden: F32, positions: I64) -> F32:
        """Cache entries of ``[rows, hidden_size]`` inputs, without attending."""
        return self._attention.write(self._joined(embedded, hidden), positions)

    def step(self, embedded: F32, hidden: F32, latent: F32, slots: I64, positions: I64) -> F32:
        """Hidden vectors ``[B, hidden_size]`` after the layer's final norm, one token for each of B sequences."""
        x = self._joined(embedded, hidden)
        x = self._arithmetic.keep(x + self._attention.step(x[:, None], latent, slots, positions)[:, 0])
        x = self._arithmetic.keep(x + self._feed_forward.apply(x))
        return rms_norm(x, self._eps) * self._final_norm

    def _joined(self, embedded: F32, hidden: F32) -> F32:
        both = np.concatenate([rms_norm(embedded, self._eps), rms_norm(hidden, self._eps)], 1)
        return self._arithmetic.project(both, self._w_in)
