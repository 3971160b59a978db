"""The engine answers as it would with one request at a time and no cache."""

from __future__ import annotations

import numpy as np
import pytest

from harness.reference.scheduler.request import FinishReason
from tests.reference.driving import VOCAB, alone, ask, drive, largest_gap, tiny_engine, tiny_options

TOLERANCE = 1e-4


def prompt(length: int, seed: int = 0) -> list[int]:
    return [int(t) for t in np.random.default_rng(seed).integers(1, VOCAB, length)]


@pytest.mark.parametrize("arch", ["hybrid", "attention"])
@pytest.mark.parametrize("policy", ["align", "fork"])
@pytest.mark.parametrize("drafts", [0, 2])
def test_a_hit_equals_a_cold_run(arch: str, policy: str, drafts: int) -> None:
    options = tiny_options(arch=arch, policy=policy, speculative_tokens=drafts)
    engine = tiny_engine(options)
    request = ask("cold", prompt(70))
    cold = drive(engine, [request])["cold"]
    for i in range(3):
        hit = drive(engine, [ask(f"hit{i}", request.prompt)])[f"hit{i}"]
        assert largest_gap(cold, hit) < TOLERANCE
    assert hit.usage is not None and hit.usage.cached_tokens >= 48


def test_cached_tokens_are_those_skipped() -> None:
    engine = tiny_engine()
    drive(engine, [ask("a", prompt(70))])
    before = engine.stats.prefilled_tokens
    answer = drive(engine, [ask("b", prompt(70))])["b"]
    assert answer.usage is not None
    assert engine.stats.prefilled_tokens - before == 70 - answer.usage.cached_tokens


def test_batched_requests_answer_as_alone() -> None:
    options = tiny_options(speculative_tokens=2)
    requests = [ask(f"r{i}", prompt(5 + 13 * i, i), max_tokens=6 + i) for i in range(7)]
    answers = drive(tiny_engine(options), requests, arrivals=[0, 0, 1, 1, 2, 5, 6])
    for request in requests:
        assert largest_gap(answers[request.request_id], alone(request, options)) < TOLERANCE


def test_preempted_sequences_answer_as_alone() -> None:
    options = tiny_options(max_model_len=96, cache_bytes=60_000)
    requests = [ask(f"r{i}", prompt(30, i), max_tokens=60) for i in range(4)]
    engine = tiny_engine(options)
    answers = drive(engine, requests)
    assert engine.stats.preemptions > 0
    for request in requests:
        assert largest_gap(answers[request.request_id], alone(request, options)) < TOLERANCE


def test_an_abort_frees_slot_and_memory() -> None:
    engine = tiny_engine()
    answers = drive(engine, [ask("a", prompt(40), max_tokens=100)], aborts={"a": 5})
    assert answers["a"].finish is not None and answers["a"].finish.reason is FinishReason.ABORT
    assert engine.memory.held_bytes == 0
    assert engine.scheduler.slots.free_slots == 4
