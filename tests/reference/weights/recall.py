"""Measures what the shipped models remember."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np

from harness.reference.model.model import Model
from harness.reference.model.state import LiveState
from harness.reference.tokenizer import Tokenizer
from harness.reference.weights import corpus

_VALUE_TOKENS = 5
"""A space and four digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallCase:
    """Facts spread over the first half of a text of ``tokens`` tokens, and the questions asked at its end."""

    tokens: list[int]
    questions: list[list[int]]


def recall_case(tokenizer: Tokenizer, facts: int, distance: int, seed: int, *, digits: bool = False) -> RecallCase:
    """A text with ``facts`` facts and ``distance`` tokens of filler; with ``digits``, of JSON and transcripts."""
    rng = Random(seed)
    stated = [f"key K{key} is {rng.randrange(1000, 10000)}" for key in rng.sample(range(10, 100), facts)]
    tokens: list[int] = []
    for fact in stated:
        tokens += tokenizer.encode(f"{fact}. ") + _filler(tokenizer, rng, distance // 2 // facts, digits)
    tokens += _filler(tokenizer, rng, distance // 2, digits)
    return RecallCase(tokens=tokens, questions=[tokenizer.encode(f" {fact}") for fact in stated])


def recalled(model: Model, case: RecallCase) -> int:
    """How many facts the model continues rightly to the last digit, greedily."""
    state = LiveState(model.config, 1, len(case.tokens) + 64)
    model.prefill(state, 0, np.array(case.tokens))
    start = state.snapshot(0)
    right = 0
    for question in case.questions:
        state.restore(0, start)
        hidden = model.prefill(state, 0, np.array(question[:-1]))[-_VALUE_TOKENS:]
        right += model.logits(hidden).argmax(-1).tolist() == question[-_VALUE_TOKENS:]
    return right


def recall_rate(
    model: Model, tokenizer: Tokenizer, facts: int, distance: int, cases: int, *, digits: bool = False
) -> float:
    """Share of facts recalled over several texts."""
    drawn = [recall_case(tokenizer, facts, distance, seed, digits=digits) for seed in range(cases)]
    return sum(recalled(model, case) for case in drawn) / (facts * cases)


def _filler(tokenizer: Tokenizer, rng: Random, count: int, digits: bool) -> list[int]:
    out: list[int] = []
    while len(out) < count:
        text = corpus.transcript(rng, 3) + corpus.records(rng, 5) if digits else corpus.prose(rng, 10)
        out += tokenizer.encode(text)
    return out[:count]
