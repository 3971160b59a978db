"""The rule of reuse is found again from lengths and counts, whatever it was."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.granularity import Rule, boundary_lengths, fit

STEPS = st.sampled_from([16, 32, 64, 128, 256, 512, 640])


@settings(max_examples=60, deadline=None)
@given(step=STEPS, offset=st.integers(0, 16), dropped=st.booleans(), seed=st.integers(0, 50))
def test_a_rule_is_found_again_with_points_at_its_boundaries(step: int, offset: int, dropped: bool, seed: int) -> None:
    rule = Rule(step=step, offset=offset, drop=step if dropped else 0)
    lengths = [step * 2 + (seed * 37 + 211 * index) % (step * 6) for index in range(8)]
    lengths += boundary_lengths(rule, step, step * 9, 10)
    points = [(length, rule.cached(length)) for length in lengths]
    found = fit(points)
    assert found is not None
    assert found.misses(points) == []
    assert found.step == step


def test_a_rule_of_single_tokens() -> None:
    points = [(length, length - 4) for length in (100, 317, 1024)]
    assert fit(points) == Rule(step=1, offset=4, drop=0)


def test_a_dropped_block_is_preferred_to_an_offset_that_no_engine_has() -> None:
    points = [(768, 704), (729, 640), (614, 512), (422, 320)]
    assert fit(points) == Rule(step=64, offset=0, drop=64)
    assert fit([(768, 704), (729, 704), (614, 576), (422, 384)]) == Rule(step=64, offset=1, drop=0)
    assert fit([(832, 768), (790, 768), (665, 512), (457, 256)]) == Rule(step=256, offset=1, drop=0), "no end tells"


def test_one_odd_point_does_not_hide_the_rule() -> None:
    points = [(length, (length - 1) // 64 * 64) for length in (512, 640, 700, 800, 900, 1025)]
    found = fit([*points, (1200, 37)])
    assert found is not None and found.step == 64 and found.misses([*points, (1200, 37)]) == [(1200, 37)]


def test_without_a_hit_there_is_no_rule() -> None:
    assert fit([]) is None
    assert fit([(1000, 0), (2000, 0)]) is None


def test_boundary_lengths_lie_at_boundaries_and_inside_the_limits() -> None:
    lengths = boundary_lengths(Rule(step=64, offset=1, drop=0), 64, 1000, 8)
    assert len(lengths) == len(set(lengths)) == 8
    assert all(2 <= length <= 1000 for length in lengths)
    assert {length % 64 for length in lengths} >= {0, 1, 63, 32}
