from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.stats.sketch import RELATIVE_ACCURACY, Sketch

latencies = st.floats(min_value=1e-3, max_value=1e7)
SHARES = (0.0, 0.01, 0.5, 0.9, 0.99, 1.0)


def sketch_of(values: list[float]) -> Sketch:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    return sketch


@given(st.lists(st.lists(latencies, max_size=30), max_size=5))
def test_parts_put_together_are_the_sketch_of_the_whole(parts: list[list[float]]) -> None:
    merged = Sketch.of(map(sketch_of, parts))
    whole = sketch_of([value for part in parts for value in part])
    assert merged.count == whole.count
    assert [merged.quantile(share) for share in SHARES] == [whole.quantile(share) for share in SHARES]


@given(st.lists(latencies, min_size=1, max_size=200), st.sampled_from(SHARES))
def test_a_quantile_is_within_the_relative_accuracy(values: list[float], share: float) -> None:
    exact = sorted(values)[math.floor(share * (len(values) - 1))]
    assert sketch_of(values).quantile(share) == pytest.approx(exact, rel=RELATIVE_ACCURACY * 1.0001)


@given(st.lists(latencies, max_size=20), st.lists(latencies, max_size=20))
def test_the_order_of_parts_does_not_matter_and_parts_stay_as_they_are(one: list[float], other: list[float]) -> None:
    first, second = sketch_of(one), sketch_of(other)
    there = [Sketch.of((first, second)).quantile(share) for share in SHARES]
    assert there == [Sketch.of((second, first)).quantile(share) for share in SHARES]
    assert (first.count, second.count) == (len(one), len(other))


def test_without_values_there_is_no_quantile() -> None:
    assert Sketch().quantile(0.5) is None
    assert Sketch.of([]).count == 0
