"""From logits to tokens: temperature, top-k, top-p, min-p, and randomness that depends on seed and position alone."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.reference.model.arrays import F32

F64 = npt.NDArray[np.float64]

TARGET_STREAM = 0
DRAFT_STREAM = 1
ACCEPT_STREAM = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How one request's tokens are chosen and when it stops.

    ``top_k`` 0 and ``top_p`` 1 are off; ``logprobs`` is the number of alternatives to report per token, None for no
    logprobs at all; temperature 0 is greedy.

    Raises:
        ValueError: a value is out of range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int = 0
    max_tokens: int = 16
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    logprobs: int | None = None

    def __post_init__(self) -> None:
        if self.temperature < 0 or not 0 < self.top_p <= 1 or self.top_k < 0 or not 0 <= self.min_p <= 1:
            raise ValueError("temperature, top_p, top_k or min_p is out of range")
        if self.max_tokens < 0 or self.min_tokens < 0:
            raise ValueError("max_tokens and min_tokens must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """Natural log-probability of one token and of the likeliest alternatives, best first; rank 1 is the likeliest."""

    token: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...]


def uniform(seed: int, position: int, stream: int) -> float:
    """A number in [0, 1) that depends on nothing else: batching, chunking and preemption cannot change a sample."""
    digest = hashlib.blake2b(struct.pack("<Qqq", seed % 2**64, position, stream), digest_size=8).digest()
    return float(int.from_bytes(digest, "little") >> 11) / 2.0**53


def log_softmax(logits: F32) -> F64:
    """Log-probabilities over the last axis, in float64."""
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    return np.asarray(wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True)))


def token_logprob(logprobs: F64, token: int, count: int) -> TokenLogprob:
    """What to report of one distribution ``[V]``: the chosen token and the ``count`` likeliest, ties by lower id."""
    best = np.argsort(-logprobs, kind="stable")[:count]
    rank = int((logprobs > logprobs[token]).sum()) + 1
    top = tuple((int(i), float(logprobs[i])) for i in best)
    return TokenLogprob(token=token, logprob=float(logprobs[token]), rank=rank, top=top)


def distribution(logits: F32, params: SamplingParams) -> F64:
    """The probabilities ``[V]`` that a token is drawn from; one-hot when greedy."""
    if params.temperature == 0:
        greedy = np.zeros(logits.shape[-1])
        greedy[int(np.argmax(logits))] = 1.0
        return greedy
    scaled = logits.astype(np.float64) / params.temperature
    if 0 < params.top_k < len(scaled):
        kth = np.partition(scaled, -params.top_k)[-params.top_k]
        scaled = np.where(scaled < kth, -np.inf, scaled)
    probabilities = np.exp(scaled - scaled.max())
    probabilities /= probabilities.sum()
    if params.min_p > 0:
        probabilities = np.where(probabilities < params.min_p * probabilities.max(), 0.0, probabilities)
    if params.top_p < 1:
        probabilities = _nucleus(probabilities, params.top_p)
    return np.asarray(probabilities / probabilities.sum())


def draw(probabilities: F64, u: float) -> int:
    """The token at quantile ``u`` of a distribution that need not be normalised."""
    cumulative = np.cumsum(probabilities)
    index = int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))
    return min(index, int(np.flatnonzero(probabilities)[-1]))


def _nucleus(probabilities: F64, top_p: float) -> F64:
    order = np.argsort(-probabilities, kind="stable")
    before = np.cumsum(probabilities[order]) - probabilities[order]
    kept = np.zeros_like(probabilities)
    chosen = order[before < top_p * probabilities.sum()]
    kept[chosen] = probabilities[chosen]
    return kept
