from __future__ import annotations

import numpy as np

from harness.reference.model.state import LiveState
from tests.reference.model.sizes import TINY, alone, model, slots, tokens


def test_a_restored_slot_goes_on_as_the_original() -> None:
    m, prompt = model(), tokens(40)
    state = LiveState(TINY, 2, 64)
    m.prefill(state, 0, prompt[:30])
    snapshot, latent = state.snapshot(0), state.read_latent(0, 0, 30)
    state.clear(0)
    state.restore(1, snapshot)
    state.write_latent(1, 0, latent)
    resumed = m.prefill(state, 1, prompt[30:])
    assert np.allclose(resumed, alone(m, prompt)[30:], atol=1e-5)
    assert state.length.tolist() == [0, 40]


def test_a_snapshot_is_a_copy_and_knows_its_size() -> None:
    m = model()
    state = LiveState(TINY, 1, 64)
    m.prefill(state, 0, tokens(8))
    snapshot = state.snapshot(0)
    before = snapshot.recurrent.copy()
    m.step(state, slots(0), tokens(1)[None])
    assert (snapshot.recurrent == before).all()
    assert snapshot.size_bytes == TINY.state_bytes


def test_bfloat16_snapshots_take_half_and_lose_little() -> None:
    state = LiveState(TINY, 1, 64, snapshot_dtype="bfloat16")
    model().prefill(state, 0, tokens(8))
    exact = state.recurrent.copy()
    snapshot = state.snapshot(0)
    state.restore(0, snapshot)
    assert snapshot.size_bytes == TINY.state_bytes // 2
    assert 0 < np.abs(state.recurrent - exact).max() <= np.abs(exact).max() * 2**-8


def test_latent_bytes_count_every_latent_layer() -> None:
    state = LiveState(TINY, 1, 10)
    assert state.latent.nbytes == 10 * TINY.latent_bytes
