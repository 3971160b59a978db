"""Resampling: weights, quantiles under weights, and intervals that cover what they should."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.stats.bootstrap import block_groups, chunks, group_draws, interval, weighted_mean, weighted_quantile

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


@given(values=values)
def test_with_equal_weights_the_median_is_the_median(values: list[float]) -> None:
    array = np.array(values)
    assert weighted_quantile(array, np.ones((1, len(array))), 0.5)[0] == pytest.approx(np.median(array))


@given(values=values, share=st.floats(0, 1), data=st.data())
def test_a_weight_is_a_number_of_copies(values: list[float], share: float, data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(0, 4), min_size=len(values), max_size=len(values)).filter(any))
    copies = np.repeat(np.array(values), counts)
    weighted = weighted_quantile(np.array(values), np.array([counts], dtype=float), share)[0]
    assert weighted == pytest.approx(weighted_quantile(copies, np.ones((1, len(copies))), share)[0])
    assert copies.min() <= weighted <= copies.max()


def test_each_resample_draws_as_many_groups_as_there_are() -> None:
    draws = group_draws(7, 100, np.random.default_rng(1))
    assert draws.shape == (100, 7)
    assert (draws.sum(axis=1) == 7).all()


def test_chunks_cover_every_resample_once() -> None:
    parts = chunks(2_000, 50_000)
    assert len(parts) > 1
    assert [index for part in parts for index in range(2_000)[part]] == list(range(2_000))


def test_blocks_keep_neighbours_together() -> None:
    groups = block_groups(1_000)
    assert groups[0] == groups[9] and groups[9] != groups[10]
    assert (np.diff(groups) >= 0).all()
    assert len(block_groups(0)) == 0


def test_interval_keeps_infinite_ends() -> None:
    low, high = interval(np.concatenate([np.zeros(10), np.arange(1.0, 81.0), np.full(10, np.inf)]))
    assert (low, high) == (0.0, np.inf)


def test_an_interval_of_a_mean_covers_the_true_mean() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(200):
        sample = rng.lognormal(0, 0.5, 60)
        weights = group_draws(60, 400, rng).astype(float)
        low, high = interval(weighted_mean(sample, weights))
        covered += low <= np.exp(0.125) <= high
    assert covered >= 174  # 95% of 200, less three standard errors, less the bootstrap's own optimism
