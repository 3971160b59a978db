"""Small models for tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.reference.config import ModelConfig
from harness.reference.model.arithmetic import Mode
from harness.reference.model.arrays import F32, I64
from harness.reference.model.model import Model
from harness.reference.model.numerics import log_softmax
from harness.reference.model.state import LiveState
from harness.reference.weights.random_weights import random_weights

TINY = ModelConfig(
    vocab_size=64,
    hidden_size=32,
    layers=4,
    group_size=4,
    head_dim=16,
    kv_rank=24,
    nope_dim=8,
    rope_dim=8,
    value_dim=8,
    dense_dim=48,
    experts=4,
    expert_dim=16,
    context_length=1024,
)
GROUPED = replace(
    TINY, layers=5, group_size=2, query_rank=16, experts=8, expert_groups=4, groups_per_token=2, routed_scale=2.5
)
"""A second attention layer, a low-rank query, expert groups and a tail."""


def model(config: ModelConfig = TINY, mode: Mode = "default") -> Model:
    """A model with random weights."""
    return Model(config, random_weights(config, 7), mode=mode)


def tokens(count: int, seed: int = 0, vocab: int = 64) -> I64:
    """Random token ids."""
    return np.random.default_rng(seed).integers(0, vocab, count)


def slots(*numbers: int) -> I64:
    """Slot numbers as the model takes them."""
    return np.array(numbers, np.int64)


def largest_shift(one: F32, other: F32) -> float:
    """Largest difference of log-probabilities between two arrays of logits."""
    return float(np.abs(log_softmax(one) - log_softmax(other)).max())


def alone(m: Model, prompt: I64) -> F32:
    """Hidden vectors of a prompt fed in one piece to a fresh state."""
    return m.prefill(LiveState(m.config, 1, len(prompt)), 0, prompt)
