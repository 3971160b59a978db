"""The judge on hand-written histories: served, too short, cut, refused badly, unread, unknown, empty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.checks.context.check import imagined
from harness.checks.context.judge import judge
from harness.checks.history import CheckHistory
from harness.checks.verdict import Status, Verdict
from tests.checks.chats import Said, Server, history
from workloads.context import (
    AT,
    CURVE,
    FAR,
    LIMIT_ANSWER_TOKENS,
    NEAR,
    NEEDLE,
    OVER_PROMPT,
    OVER_TOTAL,
    ContextOptions,
    context,
)
from workloads.cost import planned_asks
from workloads.plan import Ask, TextPrompt

LIMIT = 4096
TOO_LONG = "This model's maximum context length is 4096 tokens."


def asks(limit: int | None = LIMIT, wanted: int | None = None) -> list[Ask]:
    return list(planned_asks(context(ContextOptions(name="r0", seed=1, limit=limit, wanted=wanted)), imagined))


def sound(ask: Ask) -> Said:
    """Serves LIMIT tokens, refuses more, remembers everything."""
    step, expected = ask.labels["step"], ask.expected_prompt_tokens
    if step in (OVER_TOTAL, OVER_PROMPT, FAR):
        return Said(status=400, message=TOO_LONG)
    return Said(
        text=str(ask.labels.get("value")), prompt_tokens=700 if expected is None else expected, completion_tokens=8
    )


def on(steps: tuple[str, ...], change: Callable[[Said], Said]) -> Server:
    return lambda ask: change(sound(ask)) if ask.labels["step"] in steps else sound(ask)


def judged(server: Server, **more: object) -> CheckHistory:
    return history(asks(), server, "context", **more)


def verdict(server: Server) -> Verdict:
    return judge(judged(server))


def test_what_is_served_to_the_token_and_no_further_passes() -> None:
    found = verdict(sound)
    assert found.status is Status.PASS and "HTTP 400" in found.reason and "8 of 8 needles" in found.reason
    assert "4,088 tokens" in found.reason and "Not tested" not in found.reason
    curve = found.details["ttft_ms_by_tokens"]
    assert isinstance(curve, list) and len(curve) >= 4


def test_the_plan_goes_to_the_limit_from_both_sides() -> None:
    by_step = {str(ask.labels["step"]): ask for ask in asks()}
    assert (
        by_step[AT].expected_prompt_tokens == LIMIT - LIMIT_ANSWER_TOKENS
        and by_step[AT].max_tokens == LIMIT_ANSWER_TOKENS
    )
    assert by_step[OVER_TOTAL].expected_prompt_tokens == LIMIT - LIMIT_ANSWER_TOKENS + 1
    assert by_step[OVER_PROMPT].expected_prompt_tokens == LIMIT + 1
    near, at = by_step[NEAR].prompt, by_step[AT].prompt
    assert isinstance(near, TextPrompt) and isinstance(at, TextPrompt) and at.text == near.text + " a" * 64
    assert by_step[AT].labels["sure"] is True


@pytest.mark.parametrize(
    ("server", "status", "words"),
    [
        (on((CURVE,), lambda said: Said(status=400, message=TOO_LONG)), Status.FAIL, "within what is served"),
        (on((AT,), lambda said: Said(status=400, message=TOO_LONG)), Status.FAIL, "within what is served"),
        (on((NEAR,), lambda said: Said(status=400, message=TOO_LONG)), Status.SUSPECT, "estimate"),
        (on((AT,), lambda said: Said(status=500, message="CUDA out of memory")), Status.FAIL, "HTTP 500"),
        (on((NEEDLE,), lambda said: replace(said, prompt_tokens=2048)), Status.FAIL, "cut without a word"),
        (on((OVER_PROMPT,), lambda said: Said(text="", prompt_tokens=LIMIT - 1)), Status.FAIL, "cut without a word"),
        (on((FAR,), lambda said: Said(status=500)), Status.FAIL, "a 4xx is due"),
        (on((FAR,), lambda said: Said(status=0)), Status.SUSPECT, "a 4xx is due"),
        (on((FAR, OVER_PROMPT), lambda said: Said(status=0)), Status.FAIL, "a 4xx is due"),
        (on((OVER_PROMPT,), lambda said: Said(status=400, message="Bad Request")), Status.SUSPECT, "without a reason"),
        (on((FAR,), lambda said: Said(text="", prompt_tokens=6144)), Status.INCONCLUSIVE, "more is served"),
    ],
)
def test_what_breaks_the_promise(server: Server, status: Status, words: str) -> None:
    found = verdict(server)
    assert found.status is status and words in found.reason, found.reason


def test_an_answer_made_shorter_to_fit_is_forgiven() -> None:
    clipped = on(
        (OVER_TOTAL,), lambda said: Said(text="", prompt_tokens=LIMIT - 7, completion_tokens=7, finish="length")
    )
    assert verdict(clipped).status is Status.PASS
    longer = on(
        (OVER_TOTAL,), lambda said: Said(text="", prompt_tokens=LIMIT - 7, completion_tokens=8, finish="length")
    )
    assert verdict(longer).status is Status.INCONCLUSIVE


def test_a_beginning_that_is_never_remembered_is_suspect() -> None:
    def server(ask: Ask) -> Said:
        lost = ask.labels["step"] == NEEDLE and ask.labels["part"] in ("start", "middle")
        return replace(sound(ask), text="Hm.") if lost else sound(ask)

    found = verdict(server)
    assert found.status is Status.SUSPECT and "at the start" in found.reason


def test_a_model_that_remembers_nothing_is_judged_by_counts_alone() -> None:
    found = verdict(lambda ask: replace(sound(ask), text="Hm."))
    assert found.status is Status.PASS and "Not tested: whether the model reads its start" in found.reason


def test_less_than_is_wanted_fails() -> None:
    made = asks(wanted=8192)
    found = judge(history(made, sound, "context"))
    assert found.status is Status.FAIL and "8,192 are wanted" in found.reason


def test_a_wanted_context_below_the_limit_is_tested_up_to_there() -> None:
    made = asks(limit=1_000_000, wanted=LIMIT)
    assert (
        max(ask.expected_prompt_tokens or 0 for ask in made if ask.labels["step"] != FAR) == LIMIT - LIMIT_ANSWER_TOKENS
    )
    assert judge(history(made, sound, "context")).status is Status.PASS


def test_an_unknown_limit_is_undecided_with_the_option_that_helps() -> None:
    found = judge(history(asks(limit=None), sound, "context"))
    assert found.status is Status.INCONCLUSIVE and "--context" in found.reason


def test_without_counts_the_limit_cannot_be_reached() -> None:
    made = [ask for ask in asks() if ask.labels["step"] in (CURVE, NEEDLE)]
    found = judge(history(made, lambda ask: replace(sound(ask), prompt_tokens=None), "context"))
    assert found.status is Status.INCONCLUSIVE and "not counted" in found.reason


def test_nothing_answered_is_undecided() -> None:
    assert judge(history([], sound, "context")).status is Status.INCONCLUSIVE
    assert verdict(lambda ask: Said(status=429)).status is Status.INCONCLUSIVE
    cut = judge(history(asks()[:9], sound, "context", cut_short="context-r0 was interrupted"))
    assert cut.status is Status.INCONCLUSIVE and "interrupted" in cut.reason
