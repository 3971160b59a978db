"""A gated multi-head latent attention layer over a cache of latents."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.reference.config import ModelConfig
from harness.reference.model.arithmetic import Arithmetic
from harness.reference.model.arrays import F32, I64
from harness.reference.model.numerics import rms_norm, sigmoid

_QUERY_BLOCK = 256
_EXPAND_FROM_ROWS = 64
"""From this many new tokens on, expanding the latents to keys and values once is cheaper than attending in them."""
_SAFE_EXPONENT = 60.0


class Rope:
    """Rotary positions on interleaved pairs: ``(a, b) -> (a cos - b sin, a sin + b cos)``."""

    def __init__(self, config: ModelConfig) -> None:
        dims = np.arange(0, config.rope_dim, 2) / config.rope_dim
        angles = np.arange(config.context_length)[:, None] / config.rope_theta**dims
        self._cos: F32 = np.cos(angles).astype(np.float32)
        self._sin: F32 = np.sin(angles).astype(np.float32)

    def rotate(self, x: F32, positions: I64) -> F32:
        """``x`` ``[rows, ..., rope_dim]`` rotated to ``positions`` ``[rows]``."""
        shape = (len(positions),) + (1,) * (x.ndim - 2) + (-1,)
        cos, sin = self._cos[positions].reshape(shape), self._sin[positions].reshape(shape)
        even, odd = x[..., 0::2], x[..., 1::2]
        out: F32 = np.empty(x.shape, np.float32)
        out[..., 0::2] = even * cos - odd * sin
        out[..., 1::2] = even * sin + odd * cos
        return out


class MlaLayer:
    """One full-attention layer with its norm.

    A token's cache entry is its RMS-normalised latent followed by its rotary key. Queries are scaled by
    (nope + rope)^-1/2; each head's output is gated by ``sigmoid(g)`` before the output projection.
    """

    def __init__(
        self, config: ModelConfig, weights: Mapping[str, F32], prefix: str, arithmetic: Arithmetic, rope: Rope
    ) -> None:
        c, a = config, prefix + "attention."
        self._config, self._arithmetic, self._rope = c, arithmetic, rope
        self._scale = np.float32(c.query_dim**-0.5)
        norm = weights[prefix + "input_layernorm.weight"]
        self._w_query: F32 | None = None
        first = weights.get(a + "q_proj.weight")
        if first is None:
            first = weights[a + "q_a_proj.weight"]
            query = weights[a + "q_b_proj.weight"] * weights[a + "q_a_layernorm.weight"]
            self._w_query = np.ascontiguousarray(query.T)
        packed = np.concatenate([first, weights[a + "kv_a_proj_with_mqa.weight"], weights[a + "g_proj.weight"]])
        self._query_width = len(first)
        self._w_in: F32 = np.ascontiguousarray((packed * norm).T)
        up = weights[a + "kv_b_proj.weight"] * weights[a + "kv_a_layernorm.weight"]
        up = up.reshape(c.heads, c.nope_dim + c.value_dim, c.kv_rank)
        self._w_key: F32 = np.ascontiguousarray(up[:, : c.nope_dim])
        self._w_value: F32 = np.ascontiguousarray(up[:, c.nope_dim :].transpose(0, 2, 1))
        self._w_out: F32 = np.ascontiguousarray(weights[a + "dense.weight"].T)

    def write(self, x: F32, positions: I64) -> F32:
        """Cache entries ``[rows, kv_rank + rope_dim]`` of inputs ``x``, without attending."""
        return self._project(x, positions)[1]

    def prefill(self, x: F32, latent: F32, start: int) -> F32:
        """Output ``[n, hidden]`` for n tokens from position ``start``; their entries are written to ``latent``."""
        n = len(x)
        query, entries, gate = self._project(x, np.arange(start, start + n))
        latent[start : start + n] = entries
        if n >= _EXPAND_FROM_ROWS:
            out = self._attend_expanded(query, latent[: start + n])
        else:
            out = self._from_latent(self._attend(self._to_latent(query), latent[: start + n]))
        return self._output(out, gate)

    def step(self, x: F32, latent: F32, slots: I64, starts: I64) -> F32:
        """Output ``[B, n, hidden]`` for n tokens of each of B sequences; ``latent`` is ``[slots, capacity, width]``."""
        batch, n, hidden = x.shape
        positions = (starts[:, None] + np.arange(n)).ravel()
        query, entries, gate = self._project(x.reshape(batch * n, hidden), positions)
        latent[np.repeat(slots, n), positions] = entries
        query = self._to_latent(query).reshape(batch, n, self._config.heads, -1)
        out: F32 = np.empty((batch, n, self._config.heads, self._config.kv_rank), np.float32)
        for row in range(batch):
            known = latent[slots[row], : starts[row] + n]
            if self._arithmetic.row_independent:
                for t in range(n):
                    out[row, t] = self._attend(query[row, t : t + 1], known[: starts[row] + t + 1])[0]
            else:
                out[row] = self._attend(query[row], known)
        flat = out.reshape(batch * n, self._config.heads, self._config.kv_rank)
        return self._output(self._from_latent(flat), gate).reshape(batch, n, hidden)

    def _project(self, x: F32, positions: I64) -> tuple[F32, F32, F32]:
        """Scaled queries ``[rows, heads, nope + rope]``, cache entries, and head gates ``[rows, heads]``."""
        c, width = self._config, self._query_width
        y = self._arithmetic.project(rms_norm(x, c.norm_eps), self._w_in)
        query = y[:, :width]
        if self._w_query is not None:
            query = self._arithmetic.project(rms_norm(query, c.norm_eps), self._w_query)
        query = query.reshape(len(x), c.heads, c.query_dim) * self._scale
        query[..., c.nope_dim :] = self._rope.rotate(query[..., c.nope_dim :], positions)
        entries: F32 = np.empty((len(x), c.latent_dim), np.float32)
        entries[:, : c.kv_rank] = rms_norm(y[:, width : width + c.kv_rank], c.norm_eps)
        entries[:, c.kv_rank :] = self._rope.rotate(y[:, width + c.kv_rank : width + c.latent_dim], positions)
        return query, self._arithmetic.keep(entries), sigmoid(y[:, width + c.latent_dim :])

    def _to_latent(self, query: F32) -> F32:
        """Queries against keys become queries against latents: ``[rows, heads, kv_rank + rope_dim]``."""
        nope = self._config.nope_dim
        absorbed = self._per_head(query[..., :nope], self._w_key)
        return np.concatenate([absorbed, query[..., nope:]], -1)

    def _from_latent(self, mixed: F32) -> F32:
        """Mixed latents ``[rows, heads, kv_rank]`` to values ``[rows, heads, value_dim]``."""
        return self._per_head(mixed, self._w_value)

    def _per_head(self, x: F32, weight: F32) -> F32:
        """``x[:, h] @ weight[h]`` for each head."""
        heads = [self._arithmetic.project(x[:, head], weight[head]) for head in range(len(weight))]
        return np.stack(heads, 1)

    def _attend(self, query: F32, known: F32) -> F32:
        """Mixed latents ``[n, heads, kv_rank]``: the n queries belong to the last n of the ``known`` tokens."""
        n, heads, width = query.shape
        # In this order the product is up to five times faster: BLAS packs its right-hand side, here the few queries.
        scores: F32 = np.ascontiguousarray((known @ query.reshape(n * heads, width).T).T)
        if n > 1:
            future = np.triu(np.ones((n, n), bool), 1)
            scores.reshape(n, heads, -1)[:, :, -n:][np.repeat(future[:, None], heads, 1)] = -np.inf
        scores -= scores.max(1, keepdims=True)
        np.exp(scores, out=scores)
        mixed: F32 = scores @ known[:, : self._config.kv_rank]
        mixed /= np.sum(scores, axis=1, keepdims=True)
        return mixed.reshape(n, heads, -1)

    def _attend_expanded(self, query: F32, known: F32) -> F32:
        """Values ``[n, heads, value_dim]``; keys and values of all known tokens are expanded once."""
        c, (n, heads, _), total = self._config, query.shape, len(known)
        out: F32 = np.empty((n, heads, c.value_dim), np.float32)
        for head in range(heads):
            keys = np.ones((c.query_dim + 1, total), np.float32)
            keys[: c.nope_dim] = self._w_key[head] @ known[:, : c.kv_rank].T
            keys[c.nope_dim : -1] = known[:, c.kv_rank :].T
            values = np.ones((total, c.value_dim + 1), np.float32)
            values[:, :-1] = known[:, : c.kv_rank] @ self._w_value[head]
            for start in range(0, n, _QUERY_BLOCK):
                stop = min(n, start + _QUERY_BLOCK)
                end = total - n + stop
                weights = _causal_weights(query[start:stop, head], keys[:, :end])
                mixed = weights @ values[:end]
                out[start:stop, head] = mixed[:, :-1] / mixed[:, -1:]
        return out

    def _output(self, out: F32, gate: F32) -> F32:
        """Gates the heads and projects them."""
        gated = (out * gate[..., None]).reshape(len(out), -1)
        return self._arithmetic.project(gated, self._w_out)


def _causal_weights(query: F32, keys: F32) -> F32:
    """Unnormalised softmax weights of n queries over the keys; the queries belong to the last n of them.

    ``keys`` is ``[width + 1, total]`` with a last row of ones, so that a bound subtracted from every score costs no
    pass of its own: |q||k| is never below the maximum (Cauchy-Schwarz), and a small one cannot make the weights vanish.
    """
    n, longest = len(query), np.sqrt(np.einsum("dt,dt->t", keys[:-1], keys[:-1]).max())
    bound = np.sqrt(np.einsum("ij,ij->i", query, query)) * longest
    if bound.max() < _SAFE_EXPONENT / 2:
        weights = np.concatenate([query, -bound[:, None]], 1) @ keys
        np.exp(weights, out=weights)
        weights[:, -n:] *= np.tril(np.ones((n, n), np.float32))
        return weights
    weights = query @ keys[:-1]
    weights[:, -n:][np.triu(np.ones((n, n), bool), 1)] = -np.inf
    weights -= weights.max(1, keepdims=True)
    np.exp(weights, out=weights)
    return weights
