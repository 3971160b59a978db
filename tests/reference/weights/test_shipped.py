from __future__ import annotations

from importlib.resources import files
from random import Random

import numpy as np
import pytest

from harness.reference.config import Arch
from harness.reference.model.model import Model
from harness.reference.model.numerics import log_softmax
from harness.reference.model.state import LiveState
from harness.reference.tokenizer import Tokenizer
from harness.reference.weights import corpus
from harness.reference.weights.shipped import load
from tests.reference.weights.acceptance import accepted_drafts, greedy
from tests.reference.weights.recall import recall_case, recall_rate

_TOKENIZER = Tokenizer.load()
_ARCHES: tuple[Arch, ...] = ("hybrid", "attention")
_MODELS = {arch: Model(*load(arch)) for arch in _ARCHES}


def test_what_ships_is_at_most_four_megabytes() -> None:
    data = files("harness.reference") / "data"
    assert sum(len(entry.read_bytes()) for entry in data.iterdir() if entry.is_file()) <= 4_000_000


@pytest.mark.parametrize("arch", _ARCHES)
def test_five_facts_are_recalled_over_two_thousand_tokens(arch: Arch) -> None:
    assert recall_rate(_MODELS[arch], _TOKENIZER, 5, 2000, 4) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("arch", _ARCHES)
def test_five_facts_are_recalled_over_eight_thousand_tokens(arch: Arch) -> None:
    assert recall_rate(_MODELS[arch], _TOKENIZER, 5, 8000, 8) >= 0.9


def test_numbers_in_the_text_do_not_push_facts_out() -> None:
    assert recall_rate(_MODELS["hybrid"], _TOKENIZER, 5, 2000, 4, digits=True) >= 0.8


@pytest.mark.parametrize("part", ["recurrent", "conv", "latent"])
def test_every_layers_state_matters(part: str) -> None:
    """Wherever it is lost at the end of a text that holds facts, the following log-probabilities move."""
    m, case = _MODELS["hybrid"], recall_case(_TOKENIZER, 5, 1000, 3)
    question = np.array(case.questions[0])
    state = LiveState(m.config, 1, len(case.tokens) + 64)
    m.prefill(state, 0, np.array(case.tokens))
    snapshot, latent = state.snapshot(0), state.latent.copy()
    expected = log_softmax(m.logits(m.prefill(state, 0, question)))
    layers = m.config.kda_layers if part != "latent" else m.config.mla_layers
    for layer in range(layers):
        state.restore(0, snapshot)
        state.latent[:] = latent
        getattr(state, part)[layer, 0] = 0
        assert np.abs(log_softmax(m.logits(m.prefill(state, 0, question))) - expected).max() > 0.01


def test_drafts_are_accepted_in_part_and_more_on_repetition() -> None:
    m, rng = _MODELS["hybrid"], Random(5)
    arbitrary = [[rng.randrange(7, 512) for _ in range(300)] for _ in range(4)]
    repeated = [_TOKENIZER.encode(corpus.prose(rng, 8))[:40] * 8 for _ in range(4)]
    rates = []
    for prompts in (arbitrary, repeated):
        counts = [accepted_drafts(m, prompt, greedy(m, prompt, 48, _TOKENIZER.eos_ids)) for prompt in prompts]
        rates.append(sum(right for _, right in counts) / sum(made for made, _ in counts))
    assert 0.2 < rates[0] < rates[1] <= 1


def test_split_prefill_agrees_on_the_shipped_weights() -> None:
    m = _MODELS["hybrid"]
    tokens = np.array(_TOKENIZER.encode(corpus.transcript(Random(2), 8)))[:900]
    whole = m.prefill(LiveState(m.config, 1, 900), 0, tokens)
    state = LiveState(m.config, 1, 900)
    pieces = [m.prefill(state, 0, piece) for piece in np.split(tokens, [1, 130, 131, 700])]
    shift = np.abs(log_softmax(m.logits(whole)) - log_softmax(m.logits(np.concatenate(pieces))))
    assert shift.max() < 1e-4


@pytest.mark.slow
def test_sixteen_thousand_tokens_stay_finite_and_agree_with_a_split() -> None:
    m = _MODELS["hybrid"]
    tokens = np.random.default_rng(0).integers(7, 512, 16_000)
    whole = m.prefill(LiveState(m.config, 1, 16_000), 0, tokens)[-1]
    state = LiveState(m.config, 1, 16_000)
    for piece in np.array_split(tokens, 23):
        split = m.prefill(state, 0, piece)[-1]
    assert np.abs(log_softmax(m.logits(whole)) - log_softmax(m.logits(split))).max() < 1e-4
