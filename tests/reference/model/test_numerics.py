from __future__ import annotations

import numpy as np

from harness.reference.model.arrays import from_bf16, round_bf16, to_bf16
from harness.reference.model.numerics import l2_norm, log_softmax, rms_norm, sigmoid, unit_lower_inverse


def test_unit_lower_inverse_inverts() -> None:
    rng = np.random.default_rng(0)
    lower = np.tril(rng.standard_normal((3, 2, 16, 16)), -1).astype(np.float32) * 0.3 + np.eye(16, dtype=np.float32)
    assert np.allclose(unit_lower_inverse(lower) @ lower, np.eye(16), atol=1e-4)


def test_norms_match_their_formulas() -> None:
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    assert np.allclose(rms_norm(x, 1e-6), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6), atol=1e-6)
    assert np.allclose(l2_norm(x), x / np.sqrt((x**2).sum(-1, keepdims=True) + 1e-6), atol=1e-6)


def test_sigmoid_does_not_overflow() -> None:
    x = np.array([-1e4, -1.0, 0.0, 1.0, 1e4], np.float32)
    assert np.allclose(sigmoid(x), [0, 1 / (1 + np.e), 0.5, np.e / (1 + np.e), 1], atol=1e-6)


def test_log_softmax_sums_to_one() -> None:
    logits = np.array([[1000.0, 999.0, -5.0]], np.float32)
    assert np.isclose(np.exp(log_softmax(logits)).sum(), 1)


def test_bfloat16_rounds_to_nearest_even() -> None:
    x = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, -6.6e-5], np.float32)
    assert round_bf16(x)[:3].tolist() == [1.0, 1.0, 1 + 2**-6]
    assert np.allclose(round_bf16(x), x, rtol=2**-8)
    assert (from_bf16(to_bf16(round_bf16(x))) == round_bf16(x)).all()
