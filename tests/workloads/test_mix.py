"""Mixed workloads, and the smaller ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.playing import asks_of, play
from workloads import WORKLOADS, WorkloadOptions
from workloads.classes import CLASSES
from workloads.mix import MixedClass, MixFamily
from workloads.plan import Ask, ChatPrompt, Phase
from workloads.registry import FAMILIES
from workloads.ruler import TextRuler, candidate_pieces, make_pool
from workloads.sessions import SessionGenerator
from workloads.text import approximate_count


def mix(weights: dict[str, float]) -> MixFamily:
    options = WorkloadOptions(seed=1, requests=50, highest_concurrency=4)
    classes = []
    for name, weight in weights.items():
        family = FAMILIES[name].make(options, approximate_count)
        classes.append(MixedClass(name=name, weight=weight, family=family, turns=family.default_turns))
    return MixFamily(classes)


def measured(plan: SessionGenerator) -> list[Ask]:
    asks = [ask for ask in asks_of(play(plan)) if ask.phase is Phase.MEASURE]
    return sorted(asks, key=lambda ask: ask.key)


def test_every_beginning_of_a_mix_is_near_its_weights() -> None:
    family = mix({"text": 7, "random": 2, "needle": 1})
    names = [family.session("measure", index, 1).turns[0].labels["class"] for index in range(60)]
    for length in (10, 20, 33, 60):
        for name, share in {"text": 0.7, "random": 0.2, "needle": 0.1}.items():
            assert abs(names[:length].count(name) - share * length) <= 1


def test_a_mix_sends_the_asked_number_of_requests_with_their_class() -> None:
    options = WorkloadOptions(seed=1, requests=50, highest_concurrency=4)
    asks = measured(SessionGenerator(mix({"agent": 0.5, "text": 0.5}), options, approximate_count))
    assert len(asks) == 50
    assert {ask.labels["class"] for ask in asks} == {"agent", "text"}


def test_a_mix_without_classes_or_with_a_name_twice_is_refused() -> None:
    with pytest.raises(ValueError):
        MixFamily([])
    one = mix({"text": 1})._classes[0]
    with pytest.raises(ValueError):
        MixFamily([one, one])


@given(st.floats(max_value=0))
def test_a_weight_is_above_zero(weight: float) -> None:
    with pytest.raises(ValueError):
        mix({"text": weight})


def plan(name: str, **more: Any) -> SessionGenerator:
    options: dict[str, Any] = {"seed": 2, "requests": 24, "highest_concurrency": 4, **more}
    return WORKLOADS[name](WorkloadOptions(**options), approximate_count)


def words(ask: Ask) -> str:
    assert isinstance(ask.prompt, ChatPrompt)
    return "\n".join(message.content or "" for message in ask.prompt.messages)


def test_forks_share_all_but_their_tail() -> None:
    asks = measured(plan("fork"))
    for start in range(0, 24, 4):
        assert len({ask.prompt.messages[0] for ask in asks[start : start + 4]}) == 1  # type: ignore[union-attr]
        assert len({words(ask) for ask in asks[start : start + 4]}) == 4
    assert len({ask.prompt.messages[0] for ask in asks}) == 6  # type: ignore[union-attr]


def test_boundaries_are_met_from_both_sides_and_each_prompt_comes_twice() -> None:
    ruler = TextRuler(pool=make_pool(candidate_pieces(), approximate_count), template_tokens=5, chat=True)
    asks = measured(plan("boundary", ruler=ruler, input_tokens=256))
    lengths = [ask.expected_prompt_tokens for ask in asks if ask.turn == 0]
    assert lengths[:12] == [63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257]
    assert all(one.prompt == two.prompt for one, two in zip(asks[::2], asks[1::2], strict=True))


def test_every_class_of_content_takes_its_turn() -> None:
    asks = measured(plan("classes"))
    assert [ask.labels["class"] for ask in asks[: len(CLASSES)]] == list(CLASSES)


def test_a_needle_is_in_the_text_at_its_depth_and_asked_for_at_the_end() -> None:
    asks = measured(plan("needle"))
    for ask in asks:
        text, value = words(ask), str(ask.labels["needle"])
        assert text.count(value) == 1 and text.rstrip().endswith("Answer with the number alone.")
        depth = float(str(ask.labels["depth"]))
        assert text.index(value) / len(text) == pytest.approx(depth, abs=0.1)
    assert len({ask.labels["needle"] for ask in asks}) == len(asks)


def test_exact_lengths_are_refused_where_there_are_none() -> None:
    ruler = TextRuler(pool=make_pool(candidate_pieces(), approximate_count), template_tokens=5, chat=True)
    with pytest.raises(ValueError, match="exact"):
        plan("text", ruler=ruler)
