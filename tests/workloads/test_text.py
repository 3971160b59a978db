"""Text of a wanted length."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.lexicon import NOUNS
from workloads.text import approximate_count, cut_to_tokens, paragraphs, seeded, spread_fraction, words_of_tokens
from workloads.tool_output import TOOL_OUTPUTS


def test_seeded_sources_are_independent_and_do_not_touch_the_global_one() -> None:
    random.seed(1)
    before = random.getstate()
    draws = {seeded(1, "a", 0).random(), seeded(1, "a", 1).random(), seeded(2, "a", 0).random()}
    assert len(draws) == 3 and seeded(1, "a", 0).random() in draws
    assert random.getstate() == before


@given(tokens=st.integers(1, 3000), divisor=st.integers(1, 6), seed=st.integers(0, 50))
def test_cut_text_is_within_a_few_tokens(tokens: int, divisor: int, seed: int) -> None:
    def count(text: str) -> int:
        return -(-len(text) // divisor)

    rng = seeded(seed)
    text = cut_to_tokens(lambda chars: paragraphs(rng, chars), tokens, count)
    assert abs(count(text) - tokens) <= 3


@given(tokens=st.integers(1, 600), seed=st.integers(0, 50))
def test_words_add_up_exactly_where_words_are_tokens(tokens: int, seed: int) -> None:
    def count(text: str) -> int:
        return len(text.split())

    assert count(words_of_tokens(seeded(seed), NOUNS, tokens, count)) == tokens


@given(offset=st.floats(0, 1, exclude_max=True), few=st.integers(4, 200))
def test_spread_fractions_are_even_however_early_they_stop(offset: float, few: int) -> None:
    values = sorted(spread_fraction(index, offset) for index in range(few))
    assert values[0] >= 0 and values[-1] < 1
    gaps = [later - earlier for earlier, later in itertools.pairwise(values)]
    assert max(gaps) <= 3 / few


@pytest.mark.parametrize("kind", TOOL_OUTPUTS)
@pytest.mark.parametrize("chars", [1, 80, 5000])
def test_tool_output_is_long_enough_and_not_much_longer(kind: str, chars: int) -> None:
    make: Callable[[random.Random, int], str] = TOOL_OUTPUTS[kind]
    text = make(seeded(kind), chars)
    assert chars <= len(text) < chars + 800
    assert text == make(seeded(kind), chars)


def test_the_approximate_count_is_four_characters_a_token() -> None:
    assert [approximate_count("x" * length) for length in (0, 1, 4, 5, 400)] == [0, 1, 1, 2, 100]
