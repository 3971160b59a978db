"""The gated delta rule of Kimi Delta Attention, chunk-parallel and token by token.

With state ``S`` (K x V), decay ``d_t`` (per key channel), write strength ``b_t`` and L2-normalised ``q_t``, ``k_t``::

    S'  = diag(d_t) S_{t-1}
    S_t = S' + b_t k_t (v_t - S'^T k_t)^T
    o_t = K^-1/2 S_t^T q_t

The chunk form is the WY representation of "Kimi Linear" (arXiv 2510.26692, section 3): within a chunk the updates solve
one unit lower-triangular system, and the state enters each chunk once.
"""

from __future__ import annotations

import numpy as np

from harness.reference.model.arrays import F32
from harness.reference.model.numerics import unit_lower_inverse

CHUNK = 16
"""Tokens per chunk. Log-decays reach -5 a token: 16 of them, taken from the chunk's middle, stay within float32."""

_CAUSAL: F32 = np.tril(np.ones((CHUNK, CHUNK), np.float32))
_STRICTLY_CAUSAL: F32 = np.tril(np.ones((CHUNK, CHUNK), np.float32), -1)
_IDENTITY: F32 = np.eye(CHUNK, dtype=np.float32)


def chunked(q: F32, k: F32, v: F32, log_decay: F32, beta: F32, state: F32) -> F32:
    """Outputs of n tokens of one sequence; ``state`` is advanced in place.

    Shapes: q, k, v, log_decay ``[n, heads, K]`` (q already scaled by K^-1/2), beta ``[n, heads]``,
    state ``[heads, K, V]``.
    """
    n, heads, width = v.shape
    q, k, v, log_decay = (_by_chunk(x) for x in (q, k, v, log_decay))
    write = _by_chunk(beta[..., None])
    total = np.cumsum(log_decay, axis=2)
    reads, keys_solve = _within_chunk(q, k, total, write)
    decay: F32 = np.exp(total)
    known_and_new: F32 = np.concatenate([k * decay, v], -1)
    solved = keys_solve @ (known_and_new * write)
    inner: F32 = reads @ solved
    from_state = np.concatenate([q * decay - inner[..., :width], solved[..., :width]], 2)
    carried: F32 = k * np.exp(total[:, :, -1:] - total)
    updates: F32 = solved[..., width:]
    out = _scan(
        from_state,
        np.ascontiguousarray(inner[..., width:]),
        updates,
        np.ascontiguousarray(carried.transpose(0, 1, 3, 2)),
        decay[:, :, -1, :, None],
        state,
    )
    return out.transpose(0, 2, 1, 3).reshape(-1, heads, width)[:n]


def _by_chunk(x: F32) -> F32:
    """``[n, heads, width]`` to ``[chunks, heads, CHUNK, width]``; padding tokens, all zero, neither decay nor write."""
    n, heads, width = x.shape
    pad = -n % CHUNK
    if pad:
        x = np.concatenate([x, np.zeros((pad, heads, width), np.float32)])
    return np.ascontiguousarray(x.reshape(-1, CHUNK, heads, width).transpose(0, 2, 1, 3))


def _within_chunk(q: F32, k: F32, total: F32, write: F32) -> tuple[F32, F32]:
    """Decayed q-k products (causal), and the inverse of ``I + tril(write * decayed k-k products)``."""
    forward = np.exp(total - total[:, :, CHUNK // 2 - 1 : CHUNK // 2])
    keys = (k / forward).transpose(0, 1, 3, 2)
    products = np.concatenate([q * forward, k * forward], 2) @ keys
    reads = products[:, :, :CHUNK] * _CAUSAL
    system = products[:, :, CHUNK:] * _STRICTLY_CAUSAL * write
    return reads, unit_lower_inverse(system + _IDENTITY)


def _scan(from_state: F32, out: F32, updates: F32, carried: F32, decay: F32, state: F32) -> F32:
    """Passes the state through the chunks, adding what it contributes to each chunk's outputs and updates."""
    for chunk in range(len(out)):
        read = from_state[chunk] @ state
        out[chunk] += read[:, :CHUNK]
        state *= decay[chunk]
        state += carried[chunk] @ (updates[chunk] - read[:, CHUNK:])
    return out


def step(q: F32, k: F32, v: F32, decay: F32, beta: F32, state: F32) -> F32:
    """One token of each of B sequences; ``state`` ``[B, heads, K, V]`` is advanced in place.

    Shapes: q, k, v, decay ``[B, heads, K]`` (q already scaled, decay not a logarithm), beta ``[B, heads]``.
    """
    state *= decay[..., None]
    known: F32 = np.einsum("bhk,bhkv->bhv", k, state)
    update = beta[..., None] * (v - known)
    state += k[..., None] * update[:, :, None, :]
    out: F32 = np.einsum("bhk,bhkv->bhv", q, state)
    return out
