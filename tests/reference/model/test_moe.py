from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.reference.model.arithmetic import Plain, RowByRow
from harness.reference.model.moe import MoeFeedForward, Router
from harness.reference.weights.random_weights import random_weights
from tests.reference.model.sizes import GROUPED, TINY

_PREFIX = "model.layers.1."


def test_one_product_over_all_experts_equals_sorting_by_expert() -> None:
    weights = random_weights(TINY, 3)
    x = np.random.default_rng(0).standard_normal((100, TINY.hidden_size)).astype(np.float32)
    by_expert = MoeFeedForward(TINY, weights, _PREFIX, Plain()).apply(x)
    all_at_once = MoeFeedForward(TINY, weights, _PREFIX, RowByRow()).apply(x)
    assert np.allclose(by_expert, all_at_once, atol=1e-5)


def test_the_bias_counts_for_the_choice_alone() -> None:
    config = replace(TINY, experts_per_token=2, routed_scale=2.0)
    scores = np.array([[0.0, 1.0, 2.0, 3.0]], np.float32)
    experts, weights = Router(config, np.array([9, 0, 0, 0], np.float32)).choose(scores)
    assert experts.tolist() == [[0, 3]]
    chances = 1 / (1 + np.exp(-np.array([0.0, 3.0])))
    assert np.allclose(weights, 2 * chances / chances.sum(), atol=1e-6)


def test_only_the_best_groups_are_eligible() -> None:
    # Groups (0,1) (2,3) (4,5) (6,7): the best single expert sits in a group whose best two sum to less than others'.
    scores = np.array([[5.0, -9, 2, 2, 3, 3, -9, -9]], np.float32)
    experts, _ = Router(replace(GROUPED, experts_per_token=3), np.zeros(8, np.float32)).choose(scores)
    assert set(experts[0].tolist()) <= {2, 3, 4, 5}
