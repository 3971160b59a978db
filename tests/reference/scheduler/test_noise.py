"""Numerical modes: exact everywhere, rounded on purpose, or different after a hit on purpose."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference.driving import VOCAB, Answer, ask, drive, largest_gap, tiny_engine, tiny_options

PROMPT = [int(token) for token in np.random.default_rng(3).integers(1, VOCAB, 90)]


def legs(**options: object) -> list[Answer]:
    """One prompt cold, hit, hit again, and cold after a reset."""
    engine = tiny_engine(tiny_options(**options))
    answers = []
    for leg in ("cold", "hit", "hit again", "cold again"):
        if leg == "cold again":
            assert engine.reset_cache(force=False)
        answers.append(drive(engine, [ask(leg, PROMPT, max_tokens=1, logprobs=VOCAB)])[leg])
    hits = [answer.usage is not None and answer.usage.cached_tokens > 0 for answer in answers]
    assert hits == [False, True, True, False]
    return answers


def gaps(one: Answer, other: Answer) -> np.ndarray:
    ours, theirs = dict(one.logprobs[0].top), dict(other.logprobs[0].top)
    return np.asarray([ours[token] - theirs[token] for token in ours])


def test_deterministic_legs_are_equal_bit_for_bit() -> None:
    cold, hit, again, cold_again = legs(deterministic=True)
    assert largest_gap(cold, hit) == largest_gap(cold, again) == largest_gap(cold, cold_again) == 0


@pytest.mark.parametrize("options", [{}, {"noise": "bf16"}, {"hit_offset": 0.05}])
def test_cold_against_cold_is_bit_identical_in_every_mode(options: dict[str, object]) -> None:
    cold, hit, again, cold_again = legs(**options)
    assert largest_gap(cold, cold_again) == 0
    assert largest_gap(hit, again) == 0


def test_rounding_makes_a_hit_differ_by_more_than_the_default_does() -> None:
    default, rounded = legs(), legs(noise="bf16")
    assert abs(gaps(default[0], default[1])).max() < 1e-4
    assert abs(gaps(rounded[0], rounded[1])).max() > 1e-3


def test_a_hit_offset_is_persistent_and_of_the_size_asked_for() -> None:
    cold, hit, again, _ = legs(hit_offset=0.05)
    assert 0.02 < np.sqrt((gaps(cold, hit) ** 2).mean()) < 0.1
    assert np.array_equal(gaps(cold, hit), gaps(cold, again))


def test_deterministic_answers_do_not_depend_on_the_batch() -> None:
    options = tiny_options(deterministic=True, speculative_tokens=2)
    requests = [ask(f"r{i}", PROMPT[: 20 + 9 * i], max_tokens=10, temperature=1.0, seed=i) for i in range(5)]
    together = drive(tiny_engine(options), requests, arrivals=[0, 0, 1, 2, 3])
    for request in requests:
        single = drive(tiny_engine(options), [request])[request.request_id]
        assert largest_gap(single, together[request.request_id]) == 0
