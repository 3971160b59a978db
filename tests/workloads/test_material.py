"""Stretches of text: the same name the same text, exact lengths in token ids, no two beginning alike."""

from __future__ import annotations

import random

import pytest

from workloads.material import Material, Segment
from workloads.plan import TextPrompt, TokenPrompt
from workloads.text import approximate_count

CORPUS = tuple(random.Random(3).choices(range(500), k=3000))
IDS = Material(seed="s", count=approximate_count, token_ids=CORPUS)
TEXT = Material(seed="s", count=approximate_count)


def test_token_prompts_have_exactly_the_length_asked_for() -> None:
    prompt = IDS.prompt([Segment(name="a", tokens=100), Segment(name="b", tokens=33)])
    assert isinstance(prompt, TokenPrompt) and len(prompt.token_ids) == 133
    assert set(prompt.token_ids) <= set(CORPUS)


def test_a_shorter_stretch_is_a_prefix_of_a_longer_one() -> None:
    assert IDS.ids("a", 700)[:300] == IDS.ids("a", 300)
    short, long = TEXT.prompt([Segment(name="a", tokens=50)]), TEXT.prompt([Segment(name="a", tokens=90)])
    assert isinstance(short, TextPrompt) and isinstance(long, TextPrompt)
    assert long.text.startswith(short.text)


def test_other_names_and_other_seeds_are_other_text() -> None:
    other = Material(seed="t", count=approximate_count, token_ids=CORPUS)
    assert len({IDS.ids("a", 8), IDS.ids("b", 8), other.ids("a", 8)}) == 3
    assert len({IDS.salt("a"), IDS.salt("b"), other.salt("a")}) == 3


def test_text_prompts_are_about_as_long() -> None:
    prompt = TEXT.prompt([Segment(name="a", tokens=200), Segment(name="b", tokens=100)])
    assert isinstance(prompt, TextPrompt)
    assert approximate_count(prompt.text) == pytest.approx(300, abs=8)


def test_too_few_or_too_similar_ids_are_refused() -> None:
    with pytest.raises(ValueError, match="token ids are needed"):
        Material(seed="s", count=approximate_count, token_ids=(1,) * 3000)
    with pytest.raises(ValueError, match="token ids are needed"):
        Material(seed="s", count=approximate_count, token_ids=CORPUS[:100])
    with pytest.raises(ValueError, match="not found to take them"):
        TEXT.ids("a", 1)
