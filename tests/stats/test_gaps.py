from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.records import TokenLogprob
from harness.stats.gaps import comparable_positions, first_flip, mean_gap, squared_gap, squared_gaps


def position(chosen: str, **top: float) -> TokenLogprob:
    return TokenLogprob(token=chosen, logprob=top[chosen], top=tuple(top.items()))


tables = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-20, -0.01), min_size=2, max_size=8)


@given(tables, tables)
def test_the_gap_is_symmetric_and_zero_for_itself(one: dict[str, float], other: dict[str, float]) -> None:
    x, y = position(next(iter(one)), **one), position(next(iter(other)), **other)
    assert squared_gap(x, y) == pytest.approx(squared_gap(y, x))
    assert squared_gap(x, x) == 0.0


def test_mean_over_the_listed_tokens() -> None:
    x, y = position("a", a=-1.0, b=-2.0), position("a", a=-1.3, b=-1.6)
    assert squared_gap(x, y) == pytest.approx((0.09 + 0.16) / 2)


def test_a_missing_token_counts_only_as_far_as_it_is_certain() -> None:
    x, y = position("a", a=-0.1, b=-9.0), position("a", a=-0.1, c=-4.0)
    assert squared_gap(x, y) == pytest.approx((0 + 0 + 5.0**2) / 3)


def test_only_the_likeliest_five_of_each_side_count() -> None:
    top = {token: -1.0 - index for index, token in enumerate("abcdef")}
    assert squared_gap(position("a", **top), position("a", **(top | {"f": -6.5}))) == 0.0


def test_no_alternatives_is_no_gap_rather_than_zero() -> None:
    bare = TokenLogprob(token="a", logprob=-0.1)
    assert squared_gap(bare, position("a", a=-0.1)) is None
    assert squared_gaps([bare], [bare]) == ()
    assert mean_gap(()) is None


def test_positions_after_a_flip_are_not_compared() -> None:
    one = [position("a", a=-0.1, b=-3.0), position("a", a=-0.2, b=-1.5), position("a", a=-0.1, b=-3.0)]
    other = [one[0], position("b", a=-0.7, b=-0.6), one[2]]
    assert comparable_positions(one, other) == 2
    assert len(squared_gaps(one, other)) == 2


def test_a_flip_is_as_strong_as_its_weaker_side() -> None:
    one, other = [position("a", a=-0.2, b=-1.5)], [position("b", a=-0.7, b=-0.6)]
    flip = first_flip(one, other)
    assert flip is not None
    assert (flip.position, flip.gap) == (0, pytest.approx(0.1))
    assert first_flip(one, one) is None
    assert first_flip([], []) is None
