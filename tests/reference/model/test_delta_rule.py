from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.reference.model import delta_rule
from harness.reference.model.numerics import l2_norm


@settings(max_examples=25, deadline=None)
@given(length=st.integers(1, 70), weakest=st.sampled_from([-5.0, -1.0, -1e-3]), seed=st.integers(0, 99))
def test_chunked_equals_token_by_token(length: int, weakest: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    draw = rng.standard_normal((3, length, 2, 16)).astype(np.float32)
    q, k, v = l2_norm(draw[0]), l2_norm(draw[1]), draw[2]
    log_decay = (rng.random((length, 2, 16)) * weakest).astype(np.float32)
    beta = rng.random((length, 2)).astype(np.float32)
    start = rng.standard_normal((2, 16, 16)).astype(np.float32)
    chunk_state, step_state = start.copy(), start[None].copy()
    chunked = delta_rule.chunked(q, k, v, log_decay, beta, chunk_state)
    for t in range(length):
        here = slice(t, t + 1)
        stepped = delta_rule.step(q[here], k[here], v[here], np.exp(log_decay[here]), beta[here], step_state)
        assert np.allclose(chunked[t], stepped[0], atol=2e-4)
    assert np.allclose(chunk_state, step_state[0], atol=2e-4)


def test_a_full_write_replaces_what_a_key_held() -> None:
    key = np.zeros((1, 1, 4), np.float32)
    key[..., 2] = 1
    state = np.ones((1, 1, 4, 4), np.float32)
    value = np.full((1, 1, 4), 7, np.float32)
    read = delta_rule.step(key, key, value, np.ones_like(key), np.ones((1, 1), np.float32), state)
    assert (read == 7).all()
    assert (state[0, 0, 0] == 1).all()
