"""The search for the limit, played against servers that are a formula."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.drive.limit import LimitSearch, Trial


def play(
    search: LimitSearch, meets: Callable[[float, int], bool | None], speed: Callable[[float], float]
) -> list[Trial]:
    trials: list[Trial] = []
    while (wanted := search.next_load(trials)) is not None:
        load, confirms = wanted
        met = meets(load, len(trials))
        trials.append(Trial(load=load, met=met, throughput=speed(load), confirms=confirms))
        assert len(trials) < 60
    return trials


def search(**more: object) -> LimitSearch:
    return LimitSearch(**{"start": 1.0, "highest": 256.0, "whole": True, "objectives": True, **more})  # type: ignore[arg-type]


@given(st.integers(1, 256))
def test_the_largest_concurrency_is_found_within_a_twentieth_and_confirmed(limit: int) -> None:
    trials = play(search(), lambda load, _: load <= limit, lambda load: load)
    found = search().limit(trials)
    assert found is not None and found <= limit and limit - found <= max(1, 0.05 * limit)
    assert trials[-1].confirms and len(trials) <= 20


@given(st.floats(0.5, 200))
def test_the_largest_rate_is_found_within_a_twentieth(limit: float) -> None:
    rates = search(whole=False, start=2.0)
    found = rates.limit(play(rates, lambda load, _: load <= limit, lambda load: load))
    assert found is not None and found <= limit and limit - found <= 0.06 * limit


def test_nothing_meets_the_objectives() -> None:
    trials = play(search(), lambda load, _: False, lambda load: load)
    assert [trial.load for trial in trials] == [1.0] and search().limit(trials) is None


def test_a_start_above_the_limit_is_halved() -> None:
    trials = play(search(start=64.0), lambda load, _: load <= 5, lambda load: load)
    assert search(start=64.0).limit(trials) == 5


def test_a_load_that_does_not_confirm_is_no_limit() -> None:
    lucky = play(search(), lambda load, number: load <= 8 and not (load == 8 and number > 5), lambda load: load)
    found = search().limit(lucky)
    assert found is not None and found < 8
    never = play(search(), lambda load, number: number < 3, lambda load: load)
    assert search().limit(never) is None


def test_without_objectives_the_knee_ends_the_search() -> None:
    knees = search(objectives=False)
    trials = play(knees, lambda load, _: None, lambda load: min(load, 30.0))
    assert [trial.load for trial in trials] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert knees.knee(trials) == 32
    assert knees.knee(play(knees, lambda load, _: None, lambda load: load)) is None


@pytest.mark.parametrize("limit", [256, 10_000])
def test_no_load_above_the_highest_is_tried(limit: int) -> None:
    trials = play(search(), lambda load, _: load <= limit, lambda load: load)
    assert max(trial.load for trial in trials) == 256 and search().limit(trials) == 256
