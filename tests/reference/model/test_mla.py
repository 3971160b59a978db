from __future__ import annotations

import numpy as np
import pytest

from harness.reference.model.arithmetic import Plain
from harness.reference.model.mla import MlaLayer, Rope
from harness.reference.weights.random_weights import random_weights
from tests.reference.model.sizes import TINY, slots

_LAYER = "model.layers.3."


@pytest.mark.parametrize("sharpness", [1.0, 300.0])
def test_expanded_keys_and_attention_in_the_latent_agree(sharpness: float) -> None:
    weights = random_weights(TINY, 5)
    weights[_LAYER + "attention.q_proj.weight"] *= np.float32(sharpness)
    layer = MlaLayer(TINY, weights, _LAYER, Plain(), Rope(TINY))
    x = np.random.default_rng(0).standard_normal((90, TINY.hidden_size)).astype(np.float32)
    wide, narrow = (np.zeros((1, 128, TINY.latent_dim), np.float32) for _ in range(2))
    at_once = layer.prefill(x, wide[0], 0)
    in_steps = np.concatenate([layer.step(x[None, i : i + 3], narrow, slots(0), slots(i))[0] for i in range(0, 90, 3)])
    assert np.allclose(at_once, in_steps, atol=2e-3 if sharpness > 1 else 1e-5)
    assert np.allclose(wide, narrow, atol=1e-5)


def test_rotary_products_depend_on_the_distance_alone() -> None:
    rope = Rope(TINY)
    q, k = np.random.default_rng(0).standard_normal((2, 1, TINY.rope_dim)).astype(np.float32)
    near = rope.rotate(q, slots(7)) @ rope.rotate(k, slots(4)).T
    far = rope.rotate(q, slots(107)) @ rope.rotate(k, slots(104)).T
    assert np.allclose(near, far, atol=1e-4)


def test_rotary_pairs_are_interleaved() -> None:
    x = np.zeros((1, TINY.rope_dim), np.float32)
    x[0, 0] = 1
    turned = Rope(TINY).rotate(x, slots(1))
    assert np.allclose(turned[0, :2], [np.cos(1), np.sin(1)], atol=1e-6)
