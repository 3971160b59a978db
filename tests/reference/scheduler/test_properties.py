"""Whatever happens around a request, its answer is the one it gets alone and without a cache."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.reference.options import EngineOptions
from harness.reference.scheduler.emission import UsageReporter
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.request import Delta, FinishReason, Request
from harness.reference.scheduler.sequence import Sequence
from tests.reference.driving import VOCAB, Answer, alone, ask, drive, largest_gap, tiny_engine, tiny_options

TOLERANCE = 1e-4


class Watcher(UsageReporter):
    """Keeps the sequences it reports on."""

    def __init__(self) -> None:
        self.seen: dict[str, Sequence] = {}

    def delta(self, sequence: Sequence) -> Delta:
        self.seen[sequence.request.request_id] = sequence
        return super().delta(sequence)


@dataclass
class Mix:
    """Requests with arrival steps and aborts."""

    requests: list[Request]
    arrivals: list[int]
    aborts: dict[str, int] = field(default_factory=dict)


@st.composite
def engine_options(draw: st.DrawFn, deterministic: bool) -> EngineOptions:
    options = tiny_options(
        max_model_len=112,
        slots=draw(st.integers(1, 4)),
        chunk=draw(st.sampled_from([40, 48, 96])),
        policy=draw(st.sampled_from(["align", "fork"])),
        arch=draw(st.sampled_from(["hybrid", "hybrid", "attention"])),
        speculative_tokens=draw(st.sampled_from([0, 1, 3])),
        state_interval=draw(st.sampled_from([8, 16, 32])),
        host_bytes=draw(st.sampled_from([0, 0, 30_000, 1_000_000])),
        deterministic=deterministic,
    )
    limits = tiny_engine(options).scheduler.limits
    longest = limits.sequence_bytes(options.max_model_len + options.speculative_tokens + 1)
    return replace(options, cache_bytes=int(longest * draw(st.sampled_from([1, 1.5, 2.5, 60]))))


@st.composite
def mixes(draw: st.DrawFn) -> Mix:
    """Prompts that share stems of various lengths, some asked again, some aborted."""
    rng = np.random.default_rng(draw(st.integers(0, 5)))
    stem = [int(token) for token in rng.integers(1, VOCAB, 80)]
    requests: list[Request] = []
    mix = Mix(requests=requests, arrivals=[])
    for index in range(draw(st.integers(2, 7))):
        shared = draw(st.sampled_from([0, 7, 8, 16, 24, 31, 40, 64, 72]))
        own = [int(token) for token in rng.integers(1, VOCAB, draw(st.sampled_from([1, 2, 7, 8, 9, 20])))]
        again = draw(st.booleans()) and bool(requests)
        prompt = requests[-1].prompt if again else tuple(stem[:shared] + own)
        request = ask(
            f"r{index}",
            prompt,
            salt=draw(st.sampled_from(["", "", "s"])),
            max_tokens=draw(st.integers(1, 14)),
            temperature=draw(st.sampled_from([0.0, 0.0, 1.0])),
            seed=index,
        )
        requests.append(request)
        mix.arrivals.append(draw(st.integers(0, 30)))
        if draw(st.integers(0, 5)) == 0:
            mix.aborts[request.request_id] = mix.arrivals[-1] + draw(st.integers(0, 8))
    return mix


def run(options: EngineOptions, mix: Mix) -> tuple[Engine, Watcher, dict[str, Answer]]:
    engine = tiny_engine(options)
    engine.usage = watcher = Watcher()
    return engine, watcher, drive(engine, mix.requests, arrivals=mix.arrivals, aborts=mix.aborts)


def check_answers(options: EngineOptions, mix: Mix, tolerance: float) -> None:
    engine, watcher, answers = run(options, mix)
    for request in mix.requests:
        answer, sequence = answers[request.request_id], watcher.seen.get(request.request_id)
        if answer.finish is None or answer.finish.reason is FinishReason.ABORT:
            continue
        reference = alone(request, options)
        assert largest_gap(answer, reference) <= tolerance, request.request_id
        assert answer.text == reference.text
        assert sequence is not None and answer.usage is not None
        if not sequence.preemptions:
            assert answer.usage.cached_tokens + sequence.prefilled_tokens == len(request.prompt)
    assert engine.memory.held_bytes == 0
    assert engine.memory.used_bytes <= options.cache_bytes
    assert engine.scheduler.slots.free_slots == options.slots


SETTINGS = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SETTINGS
@given(options=engine_options(deterministic=False), mix=mixes())
def test_answers_do_not_depend_on_what_else_happens(options: EngineOptions, mix: Mix) -> None:
    check_answers(options, mix, TOLERANCE)


@SETTINGS
@given(options=engine_options(deterministic=True), mix=mixes())
def test_deterministic_answers_are_equal_bit_for_bit(options: EngineOptions, mix: Mix) -> None:
    check_answers(options, mix, 0.0)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(options=engine_options(deterministic=False), mix=mixes())
def test_answers_do_not_depend_on_what_else_happens_at_length(options: EngineOptions, mix: Mix) -> None:
    check_answers(options, mix, TOLERANCE)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(options=engine_options(deterministic=True), mix=mixes())
def test_deterministic_answers_are_equal_bit_for_bit_at_length(options: EngineOptions, mix: Mix) -> None:
    check_answers(options, mix, 0.0)


def test_the_mixes_reach_hits_preemption_drafts_and_the_host_tier() -> None:
    """The property would be empty if none of this happened."""
    options = tiny_options(
        max_model_len=112, slots=4, cache_bytes=60_000, host_bytes=1_000_000, speculative_tokens=3, policy="fork"
    )
    rng = np.random.default_rng(0)
    stem = [int(token) for token in rng.integers(1, VOCAB, 60)]
    requests = [ask(f"r{i}", [*stem, 1 + i % 3], max_tokens=30) for i in range(12)]
    engine, _, answers = run(options, Mix(requests=requests, arrivals=[3 * i for i in range(12)]))
    assert engine.stats.preemptions > 0
    assert engine.stats.accepted_tokens > 0
    assert engine.stats.drafted_tokens > engine.stats.accepted_tokens
    assert engine.stats.host_tokens > 0
    assert all(largest_gap(answers[r.request_id], alone(r, options)) < math.inf for r in requests)
