"""The judge on hand-written histories: passing, failing, absent, never switched, empty, with fields missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.checks.history import CheckHistory
from harness.checks.reasoning.judge import judge
from harness.checks.verdict import Status
from tests.checks.chats import Said, Server, history
from workloads.cost import planned_asks
from workloads.plan import Ask
from workloads.reasoning import OFF, ON, ReasoningOptions, reasoning

VLLM = frozenset({"reasoning", "content", "role"})


def asks(name: str = "r0") -> list[Ask]:
    return list(planned_asks(reasoning(ReasoningOptions(name=name, seed=1, questions=4))))


def sound(ask: Ask) -> Said:
    """Thinks where it is switched on, and only there."""
    if ask.labels["mode"] == ON:
        return Said(text="Because.", reasoning="Let me see.", reasoning_tokens=4, fields=VLLM)
    return Said(text="Because.", reasoning_tokens=0, fields=frozenset({"content"}))


def judged(server: Server, **more: object) -> CheckHistory:
    return history(asks(), server, "reasoning", **more)


def changed(mode: str, form: str | None = None, questions: int = 4, **fields: object) -> Server:
    """The sound server with other fields in one mode, in one form or both, for the first so many questions."""

    def server(ask: Ask) -> Said:
        chosen = ask.labels["mode"] == mode and form in (None, ask.labels["form"])
        return replace(sound(ask), **fields) if chosen and int(str(ask.session)[-1]) < questions else sound(ask)  # type: ignore[arg-type]

    return server


def test_a_sound_server_passes_and_names_its_field() -> None:
    verdict = judge(judged(sound))
    assert verdict.status is Status.PASS and "as reasoning" in verdict.reason
    assert verdict.details["thinks_on"] == "16 of 16" and verdict.details["thinks_off"] == "0 of 8"


@pytest.mark.parametrize(
    ("server", "rule"),
    [
        (changed(ON, text="</think>Because."), "marks of thinking in the answer"),
        (changed(OFF, text="<think>Hm"), "marks of thinking in the answer"),
        (changed(ON, reasoning="Well</think>"), "marks of thinking in the thinking"),
        (changed(OFF, questions=2, reasoning="Hm."), "thinks although switched off"),
        (changed(ON, reasoning_tokens=99), "counts"),
        (changed(ON, reasoning_tokens=-1), "counts"),
        (changed(ON, "stream", reasoning=None), "whole answers only"),
        (changed(ON, "whole", reasoning=None), "streams only"),
        (changed(ON, "stream", reasoning="Let me", text="see.Because."), "texts of the two forms"),
        (changed(ON, "stream", reasoning="Let me see.Because", text="."), "forms"),
    ],
)
def test_a_broken_rule_fails(server: Server, rule: str) -> None:
    verdict = judge(judged(server))
    assert verdict.status is Status.FAIL and rule in verdict.reason, verdict.reason


def test_one_question_has_to_repeat() -> None:
    server = changed(ON, questions=1, text="</think>Because.")
    first = judge(judged(server))
    assert first.status is Status.SUSPECT and first.follow_up is not None
    assert judge(history([*asks(), *asks("r1")], server, "reasoning", rounds=2)).status is Status.FAIL


def test_two_questions_whose_texts_differ_by_form_are_only_suspect() -> None:
    assert judge(judged(changed(ON, "stream", questions=2, text="Therefore."))).status is Status.SUSPECT


def test_another_name_in_streams_fails() -> None:
    other = changed(ON, "stream", fields=frozenset({"reasoning_content"}))
    verdict = judge(judged(other))
    assert verdict.status is Status.FAIL and "reasoning_content in streams" in verdict.reason
    both = changed(ON, "stream", fields=frozenset({"reasoning", "reasoning_content"}))
    assert judge(judged(both)).status is Status.PASS


def test_an_answer_that_ended_within_its_thinking_is_not_compared() -> None:
    def server(ask: Ask) -> Said:
        if ask.labels["mode"] != ON:
            return sound(ask)
        thought = "Let me see"
        moved = {"text": thought} if ask.labels["form"] == "whole" else {"text": None, "reasoning": thought}
        return Said(finish="length", fields=VLLM, **moved)  # type: ignore[arg-type]

    assert judge(judged(server)).status is Status.PASS


def test_no_reasoning_anywhere_is_not_applicable_unless_required() -> None:
    assert judge(judged(lambda ask: Said(text="Because."))).status is Status.NOT_APPLICABLE
    assert judge(judged(lambda ask: Said(status=400))).status is Status.NOT_APPLICABLE
    required = judge(judged(lambda ask: Said(text="Because."), required=frozenset({"reasoning"})))
    assert required.status is Status.INCONCLUSIVE and "--reasoning-parser" in required.reason


def test_thinking_left_in_the_answers_names_the_parser() -> None:
    verdict = judge(judged(lambda ask: Said(text="<think>Hm</think>Because.")))
    assert verdict.status is Status.INCONCLUSIVE and "--reasoning-parser" in verdict.reason
    assert "answers hold marks of thinking" in verdict.reason


def test_a_switch_that_does_nothing_is_undecided_and_fails_if_required() -> None:
    always = changed(OFF, reasoning="Hm.")
    verdict = judge(judged(always))
    assert verdict.status is Status.INCONCLUSIVE and "cannot be switched off" in verdict.reason
    assert judge(judged(always, required=frozenset({"reasoning"}))).status is Status.FAIL


def test_counts_that_are_not_reported_are_no_fault() -> None:
    verdict = judge(judged(lambda ask: replace(sound(ask), reasoning_tokens=None, completion_tokens=None)))
    assert verdict.status is Status.PASS and verdict.details["reasoning_tokens_reported"] == "0 of 32"


def test_nothing_answered_is_undecided() -> None:
    assert judge(history([], sound, "reasoning")).status is Status.INCONCLUSIVE
    assert judge(judged(lambda ask: Said(status=0))).status is Status.INCONCLUSIVE
    cut = judge(history(asks()[:8], sound, "reasoning", cut_short="reasoning-r0 was interrupted"))
    assert cut.status is Status.INCONCLUSIVE and "interrupted" in cut.reason
