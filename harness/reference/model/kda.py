"""A Kimi Delta Attention layer: projections, short convolution, gates, delta rule, gated output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from harness.reference.config import ModelConfig
from harness.reference.model import delta_rule
from harness.reference.model.arithmetic import Arithmetic
from harness.reference.model.arrays import F32
from harness.reference.model.numerics import l2_norm, rms_norm, sigmoid


@dataclass(frozen=True, slots=True, kw_only=True)
class KdaTrace:
    """The states one layer passed through in a step of n tokens.

    Shapes: recurrent ``[n, B, heads, K, V]``, after each token; window ``[B, 3 + n, 3P]``, the old convolution state
    and the n new projections.
    """

    recurrent: F32
    window: F32


class KdaLayer:
    """One linear-attention layer with its norm; weights packed for few, wide products.

    Equations of BailingMoeV3: SiLU after a causal convolution of kernel 4 on q, k and v (tap 3 is the current token);
    q and k L2-normalised per head, q scaled by K^-1/2; log-decay ``lower_bound * sigmoid(exp(A_log) * (f + dt_bias))``
    per channel; write strength ``sigmoid(b)`` per head; output RMS-normalised per head, times ``sigmoid(g)``.
    """

    def __init__(self, config: ModelConfig, weights: Mapping[str, F32], prefix: str, arithmetic: Arithmetic) -> None:
        c, a = config, prefix + "attention."
        self._arithmetic = arithmetic
        self._heads, self._width, self._inner = c.heads, c.head_dim, c.kda_dim
        self._eps, self._lower_bound = c.norm_eps, np.float32(c.gate_lower_bound)
        norm = weights[prefix + "input_layernorm.weight"]
        packed = np.concatenate([weights[f"{a}{name}_proj.weight"] for name in "qkvfgb"])
        self._w_in: F32 = np.ascontiguousarray((packed * norm).T)
        taps = np.concatenate([weights[f"{a}{name}_conv1d.weight"].reshape(c.kda_dim, 4) for name in "qkv"])
        self._taps: F32 = np.ascontiguousarray(taps.T)
        rate = np.repeat(np.exp(weights[a + "A_log"]).reshape(-1), c.head_dim).astype(np.float32)
        self._gate_rate: F32 = rate
        self._gate_bias: F32 = rate * weights[a + "dt_bias"].reshape(-1)
        out_norm = np.tile(weights[a + "o_norm.weight"], c.heads)
        self._w_out: F32 = np.ascontiguousarray((weights[a + "o_proj.weight"] * out_norm).T)

    def prefill(self, x: F32, conv: F32, recurrent: F32) -> F32:
        """Output ``[n, hidden]`` for n tokens of one sequence; conv ``[3, 3P]`` and recurrent ``[h, K, V]`` advance."""
        n, inner = len(x), self._inner
        y = self._arithmetic.project(rms_norm(x, self._eps), self._w_in)
        window = np.concatenate([conv, y[:, : 3 * inner]])
        conv[:] = window[-3:]
        mixed: F32 = np.einsum("tck,kc->tc", sliding_window_view(window, 4, axis=0), self._taps)
        q, k, v = self._heads_of(mixed * sigmoid(mixed))
        log_decay = sigmoid(y[:, 3 * inner : 4 * inner] * self._gate_rate + self._gate_bias) * self._lower_bound
        log_decay = log_decay.reshape(n, self._heads, self._width)
        out = delta_rule.chunked(q, k, v, log_decay, sigmoid(y[:, 5 * inner :]), recurrent)
        return self._output(out, sigmoid(y[:, 4 * inner : 5 * inner]))

    def step(self, x: F32, conv: F32, recurrent: F32, trace: KdaTrace | None = None) -> F32:
        """Output ``[B, n, hidden]`` for n tokens of each of B sequences, token by token.

        conv ``[B, 3, 3P]`` and recurrent ``[B, h, K, V]`` advance in place; ``trace`` is filled, None keeps none.
        """
        batch, n, hidden = x.shape
        inner = self._inner
        y = self._arithmetic.project(rms_norm(x, self._eps).reshape(batch * n, hidden), self._w_in)
        mixed = self._convolve(y[:, : 3 * inner].reshape(batch, n, 3 * inner), conv, trace)
        decay_in = y[:, 3 * inner : 4 * inner] * self._gate_rate + self._gate_bias
        # One sigmoid for SiLU, decay, output gate and write strength: at batch 1 the calls cost more than the numbers.
        gates = sigmoid(np.concatenate([mixed, decay_in, y[:, 4 * inner :]], 1))
        q, k, v = self._heads_of(mixed * gates[:, : 3 * inner])
        shape = (batch, n, self._heads, self._width)
        q, k, v = q.reshape(shape), k.reshape(shape), v.reshape(shape)
        decay = np.exp(gates[:, 3 * inner : 4 * inner] * self._lower_bound).reshape(shape)
        beta = gates[:, 5 * inner :].reshape(batch, n, self._heads)
        out: F32 = np.empty(shape, np.float32)
        for t in range(n):
            out[:, t] = delta_rule.step(q[:, t], k[:, t], v[:, t], decay[:, t], beta[:, t], recurrent)
            if trace is not None:
                trace.recurrent[t] = recurrent
        flat = out.reshape(batch * n, self._heads, self._width)
        projected = self._output(flat, gates[:, 4 * inner : 5 * inner])
        return projected.reshape(batch, n, hidden)

    def _convolve(self, projected: F32, conv: F32, trace: KdaTrace | None) -> F32:
        """Causal convolution over ``[B, n, 3P]``; conv receives the last three projections."""
        n = projected.shape[1]
        window = np.concatenate([conv, projected], 1)
        conv[:] = window[:, n:]
        if trace is not None:
            trace.window[:] = window
        mixed: F32 = window[:, 3:] * self._taps[3]
        for tap in range(3):
            mixed += window[:, tap : tap + n] * self._taps[tap]
        return mixed.reshape(-1, projected.shape[2])

    def _heads_of(self, activated: F32) -> tuple[F32, F32, F32]:
        """q (normalised, scaled), k (normalised) and v, each ``[rows, heads, width]``."""
        rows, inner = len(activated), self._inner
        both = l2_norm(activated[:, : 2 * inner].reshape(rows, 2, self._heads, self._width))
        q = both[:, 0] * np.float32(self._width**-0.5)
        return q, both[:, 1], activated[:, 2 * inner :].reshape(rows, self._heads, self._width)

    def _output(self, out: F32, gate: F32) -> F32:
        """Normalises ``[rows, heads, width]`` per head, gates and projects it."""
        normed = rms_norm(out, self._eps).reshape(len(out), self._inner)
        normed *= gate
        return self._arithmetic.project(normed, self._w_out)
