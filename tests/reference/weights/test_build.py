from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.reference.config import Arch, preset
from harness.reference.model.arrays import round_bf16
from harness.reference.tokenizer import Tokenizer
from harness.reference.weights.build import SEED, training_texts
from harness.reference.weights.codes import DIGIT, HISTORY, TOKEN, token_codes
from harness.reference.weights.construct import Construction
from harness.reference.weights.head import fit_head
from harness.reference.weights.shipped import load, read_weights, write_weights
from harness.reference.weights.tokenizer_training import train_tokenizer


def test_the_shipped_tokenizer_is_what_the_script_trains() -> None:
    assert train_tokenizer(training_texts(), 512) == Tokenizer.load().definition


@pytest.mark.parametrize("arch", ["hybrid", "attention"])
def test_the_shipped_weights_are_the_construction_and_a_fitted_head(arch: Arch) -> None:
    tokenizer = Tokenizer.load()
    texts = [tokenizer.token_text(token_id) for token_id in range(512)]
    built = Construction(preset(arch), token_codes(texts, SEED), SEED).build()
    _, shipped = load(arch)
    assert built.keys() == shipped.keys()
    for name in built.keys() - {"lm_head.weight"}:
        assert np.allclose(shipped[name], round_bf16(built[name]), rtol=2**-7, atol=1e-6), name


def test_stored_weights_come_back_rounded_to_bfloat16(tmp_path: Path) -> None:
    weights = {"a.weight": np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)}
    write_weights(tmp_path / "w.npz", weights)
    assert (read_weights(tmp_path / "w.npz")["a.weight"] == round_bf16(weights["a.weight"])).all()


def test_digit_codes_are_orthogonal_and_apart_from_all_others() -> None:
    codes = token_codes([*"0123456789", "the", " is", "K", "x"], 0)
    products = codes.codes @ codes.codes.T
    assert np.abs(products[:10, :10] - np.eye(10)).max() < 0.05
    assert np.abs(products[:10, 10:]).max() == 0
    assert codes.digit.sum() == 10
    assert codes.assign.tolist() == [0.0] * 11 + [1.0, 0.0, 0.0]


def test_ageing_a_history_twice_by_one_is_ageing_by_two() -> None:
    codes = token_codes([*"0123456789", "the"], 0)
    assert np.allclose(codes.shifted(1) @ codes.shifted(1), codes.shifted(2))


def test_the_draft_layer_sees_the_history_one_token_on() -> None:
    config = preset("hybrid")
    codes = token_codes(["a"] * config.vocab_size, 0)
    joined = Construction(config, codes, 0).build()[f"model.layers.{config.layers}.eh_proj.weight"]
    own, hidden = joined[:, : config.hidden_size], joined[:, config.hidden_size :]
    assert own[TOKEN, TOKEN].any()
    assert own[DIGIT, DIGIT] != 0
    assert hidden[HISTORY, TOKEN].any()
    assert not own[HISTORY].any()


def test_fitting_the_head_learns_what_follows_what() -> None:
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 5, 4000)
    inputs = (np.eye(8)[targets] + rng.standard_normal((4000, 8)) * 0.1).astype(np.float32)
    memory = slice(6, 8)
    head = rng.standard_normal((5, 8)).astype(np.float32)
    fitted = fit_head(head, inputs, targets, [memory], steps=200, seed=0)
    assert ((inputs @ fitted.T).argmax(1) == targets).mean() > 0.95
    ratio = fitted[:, memory] / head[:, memory]
    assert np.allclose(ratio, ratio[0, 0], rtol=1e-4)
