"""Fits the output head: softmax regression from hidden vectors to next tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.reference.model.arrays import F32, I64
from harness.reference.model.model import Model
from harness.reference.model.state import LiveState

_BATCH = 1024
_LEARNING_RATE = 0.1
_MEMORY_TRUST = 1.3
"""By how much the memories are trusted beyond the fit, which leans on the prose it was made from."""


def hidden_and_next(model: Model, documents: Sequence[Sequence[int]]) -> tuple[F32, I64]:
    """Hidden vectors of every token but each document's last, and the tokens that follow them."""
    longest = max(len(document) for document in documents)
    state = LiveState(model.config, 1, longest)
    vectors, following = [], []
    for document in documents:
        state.clear(0)
        tokens = np.asarray(document, np.int64)
        vectors.append(model.prefill(state, 0, tokens)[:-1])
        following.append(tokens[1:])
    return np.concatenate(vectors), np.concatenate(following)


def fit_head(head: F32, inputs: F32, targets: I64, groups: Sequence[slice], *, steps: int, seed: int) -> F32:
    """A fitted head ``[vocab, hidden]``.

    Columns outside ``groups`` are free; each group of columns keeps its directions and gets one factor, which leaves
    the answer's codes readable for tokens that the documents hardly contain. Adam, the rate falling to zero.
    """
    rng = np.random.default_rng(seed)
    columns = np.arange(head.shape[1])
    free = np.setdiff1d(columns, np.concatenate([columns[group] for group in groups]))
    x = np.ascontiguousarray(inputs[:, free])
    fixed = np.stack([inputs[:, group] @ head[:, group].T for group in groups])
    matrix = _Adam(np.zeros((len(free), len(head)), np.float32), _LEARNING_RATE)
    factors = _Adam(np.full(len(groups), 0.4, np.float32), 0.3 * _LEARNING_RATE)
    for step in range(steps):
        rows = rng.integers(0, len(x), _BATCH)
        scores = x[rows] @ matrix.value + np.einsum("g,gbv->bv", factors.value, fixed[:, rows])
        error = _softmax(scores)
        error[np.arange(_BATCH), targets[rows]] -= 1
        error /= _BATCH
        rate = 1 - step / steps
        factors.move(np.einsum("bv,gbv->g", error, fixed[:, rows]), rate)
        matrix.move(x[rows].T @ error, rate)
    fitted = head.copy()
    fitted[:, free] = matrix.value.T
    for group, factor in zip(groups, factors.value, strict=True):
        fitted[:, group] *= factor * np.float32(_MEMORY_TRUST)
    return fitted


class _Adam:
    """One parameter with its moments."""

    def __init__(self, value: F32, rate: float) -> None:
        self.value = value
        self._rate = rate
        self._mean, self._square = np.zeros_like(value), np.zeros_like(value)

    def move(self, gradient: F32, rate: float) -> None:
        """One step at ``rate`` times the full rate."""
        self._mean += np.float32(0.1) * (gradient - self._mean)
        self._square += np.float32(0.01) * (gradient * gradient - self._square)
        self.value -= np.float32(self._rate * rate) * self._mean / (np.sqrt(self._square) + np.float32(1e-8))


def _softmax(scores: F32) -> F32:
    scores = scores - scores.max(1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= np.sum(scores, axis=1, keepdims=True)
    return scores
