"""Elementwise functions and small products the layers share, in float32."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.reference.model.arrays import F32

_L2_EPS = np.float32(1e-6)


def rms_norm(x: F32, eps: float) -> F32:
    """``x / sqrt(mean(x^2) + eps)`` over the last axis; norm weights are folded into the next projection."""
    squares: F32 = np.einsum("...i,...i->...", x, x)
    scale: F32 = 1 / np.sqrt(squares / np.float32(x.shape[-1]) + np.float32(eps))
    return x * scale[..., None]


def l2_norm(x: F32) -> F32:
    """``x / sqrt(sum(x^2) + 1e-6)`` over the last axis, as Flash Linear Attention normalises q and k."""
    squares: F32 = np.einsum("...i,...i->...", x, x)
    scale: F32 = 1 / np.sqrt(squares + _L2_EPS)
    return x * scale[..., None]


def sigmoid(x: F32) -> F32:
    """The logistic function, by tanh: faster than exp in numpy and free of overflow."""
    y = x * np.float32(0.5)
    np.tanh(y, out=y)
    y += np.float32(1)
    y *= np.float32(0.5)
    return y


def silu(x: F32) -> F32:
    """``x * sigmoid(x)``."""
    return x * sigmoid(x)


def log_softmax(logits: F32) -> npt.NDArray[np.float64]:
    """Log-probabilities over the last axis, in float64."""
    x = logits.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    total: npt.NDArray[np.float64] = np.log(np.exp(x).sum(-1, keepdims=True))
    return x - total


def unit_lower_inverse(lower: F32) -> F32:
    """Inverse of ``[..., C, C]`` unit lower-triangular matrices, C a power of two, by block doubling.

    A block ``[[P, 0], [Q, R]]`` has the inverse ``[[P', 0], [-R' Q P', R']]``; the blocks double from 1 to C.
    """
    size = lower.shape[-1]
    inverse: F32 = np.zeros_like(lower)
    inverse[...] = np.eye(size, dtype=np.float32)
    odd = np.arange(1, size, 2)
    inverse[..., odd, odd - 1] = -lower[..., odd, odd - 1]
    half = 2
    while half < size:
        for start in range(0, size, 2 * half):
            top, bottom = slice(start, start + half), slice(start + half, start + 2 * half)
            product = inverse[..., bottom, bottom] @ lower[..., bottom, top]
            inverse[..., bottom, top] = -(product @ inverse[..., top, top])
        half *= 2
    return inverse
