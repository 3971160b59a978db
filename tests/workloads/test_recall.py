"""Plans of recall: needles stand where they are said to be, and nothing can serve a cold request."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from harness.checks.recall.check import imagined
from workloads.control import CONTROL, DIGITS
from workloads.cost import planned_asks
from workloads.haystack import CHAIN, NUMBER, ORDINAL, OVERWRITTEN, UUID, Keys, document, needle
from workloads.material import Material
from workloads.plan import Ask, Observation, TextPrompt
from workloads.recall import COLD, HIT, RecallOptions, document_tokens, recall
from workloads.text import approximate_count, seeded

MATERIAL = Material(seed="t", count=approximate_count)


def options(**more: Any) -> RecallOptions:
    return RecallOptions(**{"name": "r0", "documents": 12, "longest_tokens": 2048, "block_tokens": 64, **more})


def asks(**more: Any) -> list[Ask]:
    return list(planned_asks(recall(MATERIAL, options(**more)), imagined))


@pytest.mark.parametrize("kind", [NUMBER, OVERWRITTEN, ORDINAL, UUID, CHAIN])
def test_a_needle_stands_where_the_document_says(kind: str) -> None:
    rng = seeded("place", kind)
    made = document(rng, 6000, [(needle(kind, Keys(rng, 7)), 0.5)], "[0]")
    (placed,) = made.placed
    assert made.text[placed.begin : placed.end] == placed.needle.statements[-1]
    assert made.text.count(placed.needle.value) == 1
    assert abs(placed.begin / len(made.text) - 0.5) < 0.03 and abs(len(made.text) - 6000) < 300
    assert all(made.text.find(old) < placed.begin for old in placed.needle.stale)


def test_the_same_seed_makes_the_same_requests() -> None:
    assert asks() == asks()


def test_depths_cover_the_text_and_every_kind_is_asked() -> None:
    cold = [ask for ask in asks() if ask.arm == COLD]
    depths = sorted(float(str(ask.labels["begin"])) for ask in cold if ask.labels["kind"] == NUMBER)
    assert depths[0] < 0.05 and depths[-1] > 0.9 and max(b - a for a, b in pairwise(depths)) < 0.2
    assert {ask.labels["kind"] for ask in cold} == {NUMBER, OVERWRITTEN, ORDINAL, UUID, CHAIN}


def test_lengths_go_up_to_the_limit_and_end_right_behind_a_block() -> None:
    lengths = [document_tokens(options(longest_tokens=262144), index) for index in range(12)]
    assert 260_000 < max(lengths) <= 262_144 - 160 and min(lengths) < 600
    assert all(length % 64 == 8 for length in lengths)


def test_cold_requests_carry_a_salt_or_begin_otherwise() -> None:
    for ask in asks(salt=True):
        assert ("cache_salt" in ask.parameters) is (ask.arm in (COLD, CONTROL))
    by_document: dict[object, list[Ask]] = {}
    for ask in asks():
        by_document.setdefault(ask.labels["document"], []).append(ask)
    for same in by_document.values():
        openings = [_text(ask)[:14] for ask in same if ask.arm in (COLD, CONTROL)]
        assert len(set(openings)) == len(openings)
        assert not set(openings) & {_text(ask)[:14] for ask in same if ask.arm == HIT}


def _text(ask: Ask) -> str:
    assert isinstance(ask.prompt, TextPrompt)
    return ask.prompt.text


def test_a_model_that_repeats_short_values_only_is_asked_for_short_ones() -> None:
    def weak(ask: Ask) -> Observation:
        return Observation(key=ask.key, outcome="ok", text=str(ask.labels["value"])[:4])

    found = list(planned_asks(recall(MATERIAL, options()), weak))
    assert {ask.labels["digits"] for ask in found if ask.arm == COLD} == {min(DIGITS)}


def test_a_model_that_repeats_nothing_is_asked_the_control_alone() -> None:
    found = list(planned_asks(recall(MATERIAL, options())))
    assert {ask.arm for ask in found} == {CONTROL}


def test_evictions_are_planned_only_where_there_is_a_way() -> None:
    assert "refilled" not in {ask.arm for ask in asks()}
    assert "refilled" in {ask.arm for ask in asks(flush=True)}
    flooded = [ask for ask in asks(flood_tokens=10_000) if ask.arm == "flood"]
    assert sum(ask.expected_prompt_tokens or 0 for ask in flooded) >= 12_000


def test_chats_ask_questions() -> None:
    assert all(_text(ask).endswith(".") for ask in asks(chat=True))
