"""The runs test."""

from __future__ import annotations

from itertools import groupby, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.stats.runs import too_few_runs


@given(st.lists(st.booleans(), min_size=2, max_size=7).filter(lambda flags: len(set(flags)) == 2))
def test_the_p_value_is_the_share_of_all_orders_with_as_few_runs(flags: list[bool]) -> None:
    seen = sum(1 for _ in groupby(flags))
    orders = set(permutations(flags))
    few = [order for order in orders if sum(1 for _ in groupby(order)) <= seen]
    assert too_few_runs(flags) == pytest.approx(len(few) / len(orders))


def test_a_cluster_is_unlikely_and_alternation_is_not() -> None:
    clustered = too_few_runs([False] * 10 + [True] * 5 + [False] * 10)
    assert clustered is not None and clustered < 0.001
    assert too_few_runs([True, False] * 10) == pytest.approx(1.0)


def test_flags_all_alike_say_nothing() -> None:
    assert too_few_runs([]) is None
    assert too_few_runs([True, True]) is None
