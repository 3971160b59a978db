from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.reference.model.state import LiveState
from tests.reference.model.sizes import GROUPED, TINY, alone, largest_shift, model, slots, tokens


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(1, 99), max_size=4), others=st.integers(0, 4), width=st.integers(1, 4))
def test_deterministic_bits_depend_on_nothing_but_the_tokens(cuts: list[int], others: int, width: int) -> None:
    """Neither on chunking, nor on company in the batch, nor on how many tokens a step verifies."""
    m, prompt = model(GROUPED, "deterministic"), tokens(100 + width)
    expected = alone(m, prompt)
    state = LiveState(GROUPED, others + 1, 128)
    for slot in range(others):
        m.prefill(state, slot, tokens(3 + slot, slot))
    edges = [0, *sorted(set(cuts)), 100]
    pieces = [m.prefill(state, others, prompt[a:b]) for a, b in itertools.pairwise(edges)]
    assert (np.concatenate(pieces) == expected[:100]).all()
    batch = np.stack([*(tokens(width, 50 + slot) for slot in range(others)), prompt[100:]])
    hidden, _ = m.verify(state, np.arange(others + 1), batch)
    assert (hidden[-1] == expected[100:]).all()


def test_deterministic_drafts_do_not_depend_on_the_batch() -> None:
    m, prompt = model(mode="deterministic"), tokens(30)
    state = LiveState(TINY, 3, 64)
    hidden = m.prefill(state, 2, prompt[:-1])
    m.draft_prefill(state, 2, prompt[1:10], hidden[:9], 0)
    m.draft_prefill(state, 2, prompt[10:-1], hidden[9:-1], 9)
    everyone = np.repeat(prompt[-1:], 3)
    together, _ = m.draft_step(state, slots(0, 1, 2), everyone, np.repeat(hidden[-1:], 3, 0), slots(0, 0, 28))
    by_itself, _ = m.draft_step(state, slots(2), prompt[-1:], hidden[-1:], slots(28))
    assert (together[2] == by_itself[0]).all()


def test_deterministic_and_default_agree() -> None:
    prompt = tokens(100)
    plain, exact = model(), model(mode="deterministic")
    assert largest_shift(plain.logits(alone(plain, prompt)), exact.logits(alone(exact, prompt))) < 1e-4


def test_bf16_repeats_to_the_bit_and_follows_the_batch() -> None:
    m, prompt = model(mode="bf16"), tokens(60)
    assert (alone(m, prompt) == alone(m, prompt)).all()
    state = LiveState(TINY, 2, 64)
    for slot in (0, 1):
        m.prefill(state, slot, prompt[:-1])
    together = m.step(state, slots(0, 1), np.array([prompt[-1:], prompt[-1:]]))
    shift = largest_shift(m.logits(together[1, 0]), m.logits(alone(m, prompt)[-1]))
    assert 0 < shift < 1


def test_bf16_noise_is_larger_than_float32_noise() -> None:
    prompt = tokens(60)
    plain, noisy = model(), model(mode="bf16")
    assert 1e-3 < largest_shift(plain.logits(alone(plain, prompt)), noisy.logits(alone(noisy, prompt))) < 2
