"""The plan of the isolation check."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.checks.running import CORPUS
from workloads.isolation import (
    DROPPED_AFTER,
    LATE,
    MOST_IN_FLIGHT,
    PRESSED,
    SIZES,
    STORED,
    IsolationOptions,
    isolation,
    sessions,
)
from workloads.material import Material
from workloads.phases import Past
from workloads.plan import Ask, TextPrompt, TokenPrompt
from workloads.text import approximate_count

MATERIAL = Material(seed="t", count=approximate_count, token_ids=CORPUS)
OPTIONS = IsolationOptions(name="r0", seed=1, salt=True, resend_tokens=129, pressed_tokens=300)


def asks(options: IsolationOptions = OPTIONS, material: Material = MATERIAL) -> list[Ask]:
    waves = [wave for phase in isolation(material, options).phases for wave in phase(Past())]
    return [step for wave in waves for step in wave if isinstance(step, Ask)]


def text_of(ask: Ask) -> str:
    assert isinstance(ask.prompt, TextPrompt)
    return ask.prompt.text


def test_every_session_is_asked_alone_and_in_company_of_every_size() -> None:
    found = asks()
    alone = {ask.session for ask in found if ask.arm == "solo" and str(ask.session).startswith("r0/p")}
    company = [ask for ask in found if ask.arm == "company"]
    assert len(alone) == 16 and {ask.session for ask in company} == alone
    assert Counter(ask.labels["size"] for ask in company) == {size: size for size in SIZES}


def test_a_prompt_holds_its_own_codeword_and_nobody_elses() -> None:
    found = [ask for ask in asks() if ask.arm in ("solo", "company", "tenant") and "codeword" in ask.labels]
    codewords = {str(ask.labels["codeword"]) for ask in found}
    assert len(codewords) == len({ask.session for ask in found})
    for ask in found:
        text = text_of(ask)
        assert text.endswith(f"key {ask.labels['key']} is")
        assert [word for word in codewords if word in text] == [ask.labels["codeword"]]


def test_a_stranger_asks_for_what_only_the_tenant_before_it_was_told() -> None:
    found = asks()
    for index, ask in enumerate(found):
        if ask.arm == "stranger":
            tenant = found[index - 1]
            assert tenant.arm == "tenant" and text_of(ask).endswith(f"key {tenant.labels['key']} is")
            assert str(tenant.labels["codeword"]) not in text_of(ask)


def test_the_same_session_is_the_same_prompt_under_another_salt() -> None:
    by_session: dict[str, list[Ask]] = {}
    for ask in asks():
        if ask.arm in ("company", "victim", "foreground", "after-tenant"):
            by_session.setdefault(str(ask.session), []).append(ask)
    for same in by_session.values():
        assert len({text_of(ask) for ask in same}) == 1
        salts = [ask.parameters["cache_salt"] for ask in same]
        assert len(set(salts)) == len(salts)


def test_the_storm_drops_at_every_stage_and_victims_follow() -> None:
    storm = [ask for ask in asks() if ask.arm in ("dropped", "victim")]
    assert {ask.abort_after_events for ask in storm if ask.arm == "dropped"} == set(DROPPED_AFTER)
    assert sum(ask.arm == "victim" for ask in storm[:MOST_IN_FLIGHT]) > 0
    assert len(storm) > MOST_IN_FLIGHT


def test_what_is_cached_in_the_storm_is_asked_anew_and_from_the_cache() -> None:
    found = asks()
    stored = {ask.session for ask in found if ask.arm == "stored"}
    assert len(stored) == STORED + LATE
    after = [(ask.session, ask.arm, "cache_salt" in ask.parameters) for ask in found if ask.session in stored][12:]
    for session in stored:
        assert (session, "solo", True) in after and (session, "cached", False) in after


def test_resent_prompts_are_alike_and_leave_one_token_after_two_blocks() -> None:
    resent = [ask for ask in asks() if ask.arm in ("fill", "resent", "resent-alone")]
    prompts = {ask.prompt for ask in resent}
    (prompt,) = prompts
    assert isinstance(prompt, TokenPrompt) and len(prompt.token_ids) == 129
    assert not any("cache_salt" in ask.parameters for ask in resent)


def test_parts_that_cannot_be_had_are_left_out() -> None:
    text_only = Material(seed="t", count=approximate_count)
    arms = {ask.arm for ask in asks(replace(OPTIONS, resend_tokens=None, pressed_tokens=None), text_only)}
    assert "resent" not in arms and "pressed" not in arms
    assert "resent" not in {ask.arm for ask in asks(replace(OPTIONS, pressed_tokens=None), text_only)}


def test_pressing_asks_for_more_than_there_is() -> None:
    heavy = [ask for ask in asks() if ask.arm == "pressed"]
    assert len(heavy) == PRESSED and len({ask.prompt for ask in heavy}) == PRESSED


def test_cycles_repeat_on_the_same_sessions_with_other_keys_of_requests() -> None:
    found = asks(replace(OPTIONS, cycles=2))
    assert len({ask.key for ask in found}) == len(found) > 1.9 * len(asks())
    assert len({ask.session for ask in found if ask.arm == "solo" and str(ask.session).startswith("r0/p")}) == 16


def test_the_same_options_give_the_same_plan_and_another_round_other_content() -> None:
    assert asks() == asks()
    assert not {s.codeword for s in sessions(1, "r0", 4, 16)} >= {s.codeword for s in sessions(1, "r1", 4, 16)}


def test_chats_are_asked_with_long_codewords() -> None:
    (first, *_) = asks(replace(OPTIONS, chat=True, digits=10))
    assert "What is key" in text_of(first) and len(str(first.labels["codeword"])) == 10


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="isolation"):
        IsolationOptions(name="r0", seed=1, cycles=0)
