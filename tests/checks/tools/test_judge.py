"""The judge on hand-written histories: passing, failing, absent, half switched on, empty, with fields missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.checks.history import CheckHistory
from harness.checks.tools.facts import misfit
from harness.checks.tools.judge import judge
from harness.checks.verdict import Status
from tests.checks.chats import Said, Server, history
from workloads.cost import planned_asks
from workloads.plan import Ask
from workloads.tool_schemas import BOOK, NOTE, SCHEMAS, WEATHER
from workloads.tools import AUTO, FORCED, GROUNDED, HIT, NAMED, NONE, PARALLEL, REQUIRED, UNFIT, ToolsOptions, tools

GOOD = {
    WEATHER: '{"city": "Troms\\u00f8", "unit": "°C"}',
    BOOK: '{"guest": {"name": "Zoë", "member": true}, "nights": 2, "extras": ["früh"]}',
    NOTE: '{"title": "a", "urgent": false, "due_day": null}',
}
WRITTEN = f'<tool_call>\n{{"name": "get_weather", "arguments": {GOOD[WEATHER]}}}\n</tool_call>'
CALLED = Said(finish="tool_calls", cached=None)


def asks(name: str = "r0") -> list[Ask]:
    return list(planned_asks(tools(ToolsOptions(name=name, seed=1, conversations=3))))


def sound(ask: Ask) -> Said:
    """A server and a model that do everything right."""
    cached = 448 if ask.arm == HIT else 0
    kind, expected = ask.labels["kind"], ask.labels["expected"]
    if kind == GROUNDED:
        return Said(text=str(ask.labels["value"]), cached=cached)
    if kind not in FORCED and expected is None:
        return Said(text="Certainly.", cached=cached)
    name = str(expected) if expected is not None else WEATHER
    calls = ((name, GOOD[name]),) * (2 if kind == PARALLEL else 1)
    return Said(calls=calls, finish="tool_calls", cached=cached)


def only(kind: str, change: Callable[[Said], Said], *, number: int = 3, arms: tuple[str, ...] = ()) -> Server:
    """The sound server, but for the first so many conversations of a kind."""

    def server(ask: Ask) -> Said:
        said = sound(ask)
        chosen = ask.labels["kind"] == kind and int(str(ask.session)[-1]) < number and (not arms or ask.arm in arms)
        return change(said) if chosen else said

    return server


def judged(server: Server, **more: object) -> CheckHistory:
    return history(asks(), server, "tools", **more)


def test_a_sound_server_passes_with_everything_tested() -> None:
    verdict = judge(judged(sound))
    assert verdict.status is Status.PASS and "Not tested" not in verdict.reason
    assert verdict.details["schema_accuracy"] == 1.0 and verdict.details["trigger_f1"] == 1.0
    assert verdict.details["tool_results_used"] == "12 of 12"


@pytest.mark.parametrize(
    ("kind", "change", "rule"),
    [
        (REQUIRED, lambda said: replace(said, calls=(), text="No.", finish="stop"), "forced call"),
        (NAMED, lambda said: replace(said, calls=(("get_weather", GOOD[WEATHER]),)), "named tool"),
        (REQUIRED, lambda said: replace(said, calls=(("get_weather", '{"city": "Rome"}'),)), "arguments of a forced"),
        (REQUIRED, lambda said: replace(said, calls=(("get_weather", '{"city": '),)), "arguments of a forced call"),
        (AUTO, lambda said: replace(said, calls=(("get_weather", "[]"),)), "arguments of a chosen call"),
        (AUTO, lambda said: replace(said, calls=(("get_time", "{}"),)), "no tool that was offered"),
        (AUTO, lambda said: replace(said, finish="stop"), "finish reason"),
        (NONE, lambda said: replace(said, calls=(("get_weather", GOOD[WEATHER]),)), "forbidden call"),
        (AUTO, lambda said: replace(said, text="<tool_call>\n"), "markup in the text"),
        (PARALLEL, lambda said: replace(said, calls=(), text=WRITTEN, finish="stop"), "markup in the text"),
        (PARALLEL, lambda said: replace(said, ids=("a", "a")), "call ids"),
        (REQUIRED, lambda said: replace(said, ids=("",)), "has no id"),
    ],
)
def test_a_rule_broken_in_two_conversations_fails(kind: str, change: Callable[[Said], Said], rule: str) -> None:
    verdict = judge(judged(only(kind, change)))
    assert verdict.status is Status.FAIL and rule in verdict.reason, verdict.reason


def test_a_mark_without_a_call_is_the_models_slip() -> None:
    slip = only(UNFIT, lambda said: replace(said, text="rain <tool_call>\n</tool_call> Mess"))
    assert judge(judged(slip)).status is Status.PASS


def test_a_rule_broken_once_is_suspect_until_fresh_conversations_repeat_it() -> None:
    server = only(REQUIRED, lambda said: replace(said, calls=(), text="No."), number=1)
    first = judge(judged(server))
    assert first.status is Status.SUSPECT and first.follow_up is not None
    again = history([*asks(), *asks("r1")], server, "tools", rounds=2)
    assert judge(again).status is Status.FAIL
    alone = history(
        [*asks(), *asks("r1")], lambda ask: server(ask) if ask.key[1] == "0" else sound(ask), "tools", rounds=2
    )
    verdict = judge(alone)
    assert verdict.status is Status.SUSPECT and verdict.follow_up is None


def test_calls_that_come_in_one_form_only_fail() -> None:
    def server(ask: Ask) -> Said:
        said = sound(ask)
        return (
            replace(said, calls=(), text="Well.", finish="stop") if ask.stream and ask.labels["kind"] == AUTO else said
        )

    verdict = judge(judged(server))
    assert verdict.status is Status.FAIL and "only in whole answers" in verdict.reason


def test_an_answer_that_the_limit_cut_breaks_no_rule() -> None:
    cut = only(REQUIRED, lambda said: replace(said, calls=(("get_weather", '{"ci'),), finish="length"))
    assert judge(judged(cut)).status is Status.PASS


def test_calls_that_the_limit_cut_everywhere_leave_it_undecided() -> None:
    verdict = judge(judged(lambda ask: Said(text="{", finish="length")))
    assert verdict.status is Status.INCONCLUSIVE and "160 tokens" in verdict.reason


def test_llama_cpp_is_not_held_to_named_choices() -> None:
    other = only(NAMED, lambda said: replace(said, calls=(), text="No."))
    assert judge(judged(other, engine="llama.cpp")).status is Status.PASS
    assert judge(judged(other)).status is Status.FAIL


def test_a_model_that_never_calls_by_choice_passes_and_says_so() -> None:
    def server(ask: Ask) -> Said:
        said = sound(ask)
        return said if ask.labels["kind"] in FORCED or not said.calls else Said(text="Hm.", cached=said.cached)

    verdict = judge(judged(server))
    assert verdict.status is Status.PASS and "calls by choice (the model made none)" in verdict.reason


def test_no_call_anywhere_is_not_applicable_unless_required() -> None:
    assert judge(judged(lambda ask: Said(text="Hm."))).status is Status.NOT_APPLICABLE
    required = judge(judged(lambda ask: Said(text="Hm."), required=frozenset({"tools"})))
    assert required.status is Status.INCONCLUSIVE and "--enable-auto-tool-choice" in required.reason
    assert judge(judged(lambda ask: Said(status=400))).status is Status.NOT_APPLICABLE


def test_calls_left_in_the_text_name_the_parser() -> None:
    verdict = judge(judged(lambda ask: Said(text=WRITTEN)))
    assert verdict.status is Status.INCONCLUSIVE and "--tool-call-parser" in verdict.reason


def test_choice_refused_and_force_taken_is_half_switched_on() -> None:
    verdict = judge(judged(lambda ask: sound(ask) if ask.labels["kind"] in FORCED else Said(status=400)))
    assert verdict.status is Status.INCONCLUSIVE and "--enable-auto-tool-choice" in verdict.reason


def test_what_goes_wrong_from_the_cache_alone_is_an_alarm_that_has_to_repeat() -> None:
    def server(ask: Ask) -> Said:
        said = sound(ask)
        wrong = ask.arm == HIT and ask.labels["kind"] in (AUTO, PARALLEL, GROUNDED)
        return replace(said, calls=(), text="Hm.", finish="stop") if wrong else said

    assert judge(judged(server)).status is Status.SUSPECT
    assert judge(history([*asks(), *asks("r1")], server, "tools", rounds=2)).status is Status.FAIL


def test_hits_that_were_never_seen_are_not_tested() -> None:
    verdict = judge(judged(lambda ask: replace(sound(ask), cached=None)))
    assert verdict.status is Status.PASS and "answers from the cache" in verdict.reason


def test_nothing_answered_is_undecided() -> None:
    assert judge(history([], sound, "tools")).status is Status.INCONCLUSIVE
    assert judge(judged(lambda ask: Said(status=0))).status is Status.INCONCLUSIVE
    cut = history(asks()[:8], sound, "tools", cut_short="tools-r0 was interrupted")
    assert judge(cut).status is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (GOOD[BOOK], None),
        (None, "no JSON"),
        ("7", "no JSON object"),
        ('{"guest": {"name": "a"}, "nights": 1, "extras": ["crib"]}', "'member' is a required property"),
        ('{"guest": {"name": "a", "member": true}, "nights": 1, "extras": ["pool"]}', "is not one of"),
        ('{"guest": {"name": "a", "member": true}, "nights": "1", "extras": ["crib"]}', "is not of type"),
    ],
)
def test_arguments_against_their_schema(arguments: str | None, wrong: str | None) -> None:
    found = misfit(arguments, SCHEMAS[BOOK])
    assert found is None if wrong is None else wrong in str(found)
