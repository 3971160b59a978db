from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.reference.config import ModelConfig
from harness.reference.model.model import Model
from harness.reference.model.state import LiveState
from harness.reference.weights.random_weights import random_weights
from tests.reference.model.sizes import GROUPED, TINY, alone, largest_shift, model, slots, tokens

_TOLERANCE_NATS = 1e-4


@pytest.mark.parametrize("config", [TINY, GROUPED])
@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(1, 149), max_size=5), data=st.integers(0, 9))
def test_any_chunking_agrees_with_token_by_token(config: ModelConfig, cuts: list[int], data: int) -> None:
    m, prompt = model(config), tokens(150, data)
    edges = [0, *sorted(set(cuts)), 150]
    state = LiveState(config, 1, 150)
    pieces = [m.prefill(state, 0, prompt[a:b]) for a, b in itertools.pairwise(edges)]
    stepped = LiveState(config, 1, 150)
    steps = [m.step(stepped, slots(0), prompt[None, i : i + 1])[0] for i in range(150)]
    assert largest_shift(m.logits(np.concatenate(pieces)), m.logits(np.concatenate(steps))) < _TOLERANCE_NATS


def test_a_batch_agrees_with_each_row_alone_in_any_slots() -> None:
    m, state = model(), LiveState(TINY, 5, 64)
    prompts = [tokens(20 + 7 * i, i) for i in range(3)]
    where = (4, 1, 2)
    for slot, prompt in zip(where, prompts, strict=True):
        m.prefill(state, slot, prompt[:-1])
    hidden = m.step(state, slots(*where), np.array([[prompt[-1]] for prompt in prompts]))
    for row, prompt in enumerate(prompts):
        assert largest_shift(m.logits(hidden[row, 0]), m.logits(alone(m, prompt)[-1])) < _TOLERANCE_NATS
    assert state.length.tolist() == [0, 27, 34, 0, 20]


@pytest.mark.parametrize("kept", [1, 2, 3, 4])
def test_rejected_drafts_leave_no_trace(kept: int) -> None:
    m, prompt = model(), tokens(40)
    state = LiveState(TINY, 2, 64)
    m.prefill(state, 1, prompt[:30])
    drafted = np.concatenate([prompt[30 : 30 + kept], tokens(4 - kept, 9)])
    _, states = m.verify(state, slots(1), drafted[None])
    states.rewind(state, 0, 1, kept)
    rest = m.prefill(state, 1, prompt[30 + kept :])
    assert largest_shift(m.logits(rest), m.logits(alone(m, prompt)[30 + kept :])) < _TOLERANCE_NATS


def test_a_verify_step_cannot_keep_more_than_it_fed() -> None:
    m, state = model(), LiveState(TINY, 1, 16)
    _, states = m.verify(state, slots(0), tokens(3)[None])
    for kept in (0, 4):
        with pytest.raises(ValueError):
            states.rewind(state, 0, 0, kept)


@pytest.mark.parametrize("layer", range(3))
@pytest.mark.parametrize("part", ["recurrent", "conv"])
def test_losing_one_linear_layers_state_changes_the_answer(layer: int, part: str) -> None:
    m, prompt = model(), tokens(60)
    state = LiveState(TINY, 1, 64)
    m.prefill(state, 0, prompt[:-1])
    getattr(state, part)[layer, 0] = 0
    lost = m.step(state, slots(0), prompt[None, -1:])
    assert largest_shift(m.logits(lost[0]), m.logits(alone(m, prompt)[-1:])) > 100 * _TOLERANCE_NATS


def test_losing_the_latents_changes_the_answer() -> None:
    m, prompt = model(), tokens(60)
    state = LiveState(TINY, 1, 64)
    m.prefill(state, 0, prompt[:-1])
    state.latent[0, 0, :59] = 0
    lost = m.step(state, slots(0), prompt[None, -1:])
    assert largest_shift(m.logits(lost[0]), m.logits(alone(m, prompt)[-1:])) > 100 * _TOLERANCE_NATS


def test_drafting_after_cheap_latents_equals_drafting_all_the_way() -> None:
    m, prompt = model(), tokens(50)
    state, walked = LiveState(TINY, 1, 64), LiveState(TINY, 1, 64)
    hidden = m.prefill(state, 0, prompt[:-1])
    m.draft_prefill(state, 0, prompt[1:-1], hidden[:-1], 0)
    logits, onward = m.draft_step(state, slots(0), prompt[-1:], hidden[-1:], slots(48))
    for i in range(49):
        each = m.draft_step(walked, slots(0), prompt[i + 1 : i + 2], hidden[i : i + 1], slots(i))
    assert largest_shift(logits, each[0]) < _TOLERANCE_NATS
    assert np.allclose(onward, each[1], atol=1e-4)


def test_the_state_keeps_the_hidden_vector_drafts_start_from() -> None:
    m, state = model(), LiveState(TINY, 1, 64)
    hidden = m.prefill(state, 0, tokens(9))
    assert (state.hidden[0] == hidden[-1]).all()
    hidden = m.step(state, slots(0), tokens(2)[None])
    assert (state.hidden[0] == hidden[0, -1]).all()


def test_too_many_tokens_are_refused() -> None:
    m, state = model(), LiveState(TINY, 1, 10)
    with pytest.raises(ValueError):
        m.prefill(state, 0, tokens(11))
    m.prefill(state, 0, tokens(10))
    with pytest.raises(ValueError):
        m.step(state, slots(0), tokens(1)[None])


def test_a_model_without_a_draft_layer_says_so() -> None:
    config = ModelConfig(mtp_layers=0, layers=2, group_size=2, experts=4)
    m = Model(config, random_weights(config, 0))
    with pytest.raises(ValueError):
        m.draft_step(LiveState(config, 1, 4), slots(0), slots(1), np.zeros((1, 128), np.float32), slots(0))
