"""The judge on hand-written histories: passing, failing, undecidable, empty, with fields missing, zero against None."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from harness.checks.framing import Framing
from harness.checks.stream.judge import judge
from harness.checks.verdict import Status
from harness.records import ErrorKind, RequestError, TokenLogprob, Usage
from tests.checks.stream.histories import COUNTED, TOKENS, answer, history, prompt, prompts

LOST = RequestError(kind=ErrorKind.ENDED_EARLY, message="gone")


def usage(prompt_tokens: int | None = 40, completion: int | None = TOKENS, cached: int | None = 0) -> Usage:
    return Usage(prompt_tokens=prompt_tokens, completion_tokens=completion, cached_tokens=cached)


def test_answers_that_agree_pass() -> None:
    verdict = judge(history(prompts()))
    assert verdict.status is Status.PASS, verdict.reason
    assert (verdict.eligible, verdict.examined, verdict.violations) == (24, 24, 0)


def test_an_empty_history_is_undecided() -> None:
    verdict = judge(history([]))
    assert verdict.status is Status.INCONCLUSIVE and verdict.examined == 0


def test_one_form_alone_is_undecided() -> None:
    only_whole = [each for each in prompts() if each.framing is None]
    assert judge(history(only_whole)).status is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("framing", "words"),
    [
        (Framing(finish_reasons=("stop", "stop"), done_markers=1), "2 finish reasons"),
        (Framing(finish_reasons=("length",), done_markers=0), "0 [DONE] markers"),
        (Framing(finish_reasons=("length",), done_markers=2), "2 [DONE] markers"),
        (Framing(finish_reasons=("length",), done_markers=1, texts_after_finish=1), "text after the finish"),
        (Framing(finish_reasons=("length",), done_markers=1, events_after_done=3), "3 events after [DONE]"),
    ],
)
def test_a_broken_frame_fails(framing: Framing, words: str) -> None:
    verdict = judge(history([*prompts(), answer("bad", 0, "stream", framing=framing)]))
    assert verdict.status is Status.FAIL and words in verdict.reason
    assert verdict.evidence[0].request_ids == ("bad/0",)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"usage": usage(completion=3)}, "usage counts 3 tokens, 8 token ids came"),
        ({"usage": usage(completion=99), "token_ids": None}, "99 tokens, 8 were allowed"),
        ({"usage": usage(completion=5), "token_ids": None}, "finish reason length after 5 of 8 tokens"),
        ({"usages": (usage(20), usage(40))}, "one prompt is counted as 20, 40 tokens"),
        ({"usages": (usage(completion=None), usage(None))}, "different usage objects"),
        ({"usages": (usage(completion=5), usage(completion=3))}, "run backwards"),
        ({"unparsed_events": 2}, "2 events that are no JSON"),
    ],
)
def test_counts_that_do_not_add_up_fail(change: dict[str, Any], words: str) -> None:
    verdict = judge(history([*prompts(), answer("bad", 0, "stream", **change)]))
    assert verdict.status is Status.FAIL and words in verdict.reason


def test_llama_cpp_may_merge_tokens_into_one_character() -> None:
    merged = answer("merged", 0, "stream", token_ids=(1, 2, 3))
    assert judge(history([*prompts(), merged], engine="llama.cpp")).status is Status.PASS
    assert judge(history([*prompts(), merged])).status is Status.FAIL


def test_missing_usage_breaks_no_count() -> None:
    answers = [
        each for index in range(6) for each in prompt(f"p{index}", streamed={"usage": None}, whole={"usage": None})
    ]
    assert judge(history(answers)).status is Status.PASS


def test_cached_tokens_in_one_form_only_fail_and_zero_is_a_report() -> None:
    missing = prompt("p9", streamed={"usage": usage(cached=None)}, whole={"usage": usage(cached=0)})
    verdict = judge(history([*prompts(), *missing]))
    assert verdict.status is Status.FAIL and "not reported in streams, 0 in whole" in verdict.reason


def test_a_first_answer_that_missed_the_cache_is_forgiven() -> None:
    hits = [answer("p9", number, form, usage=usage(cached=32 if number else 0))
            for number, form in enumerate(("whole", "stream", "stream", "whole"))]  # fmt: skip
    assert judge(history([*prompts(), *hits])).status is Status.PASS


def test_texts_that_follow_the_form_fail_when_there_are_many() -> None:
    answers = [each for index in range(6) for each in prompt(f"p{index}", streamed={"text": "another one"})]
    verdict = judge(history(answers))
    assert verdict.status is Status.FAIL and "6 of 6 prompts" in verdict.reason


@pytest.mark.parametrize(("rest", "status"), [("\ufffdin", Status.PASS), ("\ufffd and more", Status.FAIL)])
def test_what_a_stream_holds_back_of_a_broken_character_is_let_go(rest: str, status: Status) -> None:
    answers = [
        each
        for index in range(6)
        for each in prompt(f"p{index}", streamed={"text": "said"}, whole={"text": f"said{rest}"})
    ]
    assert judge(history(answers)).status is status


def test_one_text_that_follows_the_form_asks_for_fresh_prompts() -> None:
    verdict = judge(history([*prompts(), *prompt("p9", streamed={"text": "another one"})]))
    assert verdict.status is Status.SUSPECT and verdict.follow_up is not None
    again = judge(history([*prompts(), *prompt("p9", streamed={"text": "another one"})], rounds=2))
    assert again.status is Status.SUSPECT and again.follow_up is None


def test_texts_that_never_repeat_are_not_held_against_a_server() -> None:
    answers = [answer(f"p{index}", number, form, text=f"text {number}") for index in range(6)
               for number, form in enumerate(("whole", "stream", "stream", "whole"))]  # fmt: skip
    verdict = judge(history(answers))
    assert verdict.status is Status.PASS and "no prompt repeats itself" in verdict.reason


def test_a_stop_string_in_the_text_fails() -> None:
    verdict = judge(history([*prompts(), answer("s", 0, "whole", kind="stop", text="up to here", stop=["here"])]))
    assert verdict.status is Status.FAIL and "'here'" in verdict.reason


def test_streams_that_never_come_through_fail() -> None:
    lost = {"error": LOST, "usage": None}
    answers = [each for index in range(4) for each in prompt(f"p{index}", streamed=lost)]
    verdict = judge(history(answers))
    assert verdict.status is Status.FAIL and "none of 8 streamed" in verdict.reason


def test_one_lost_answer_is_forgiven() -> None:
    assert judge(history([*prompts(), answer("p9", 0, "stream", error=LOST)])).status is Status.PASS


@pytest.mark.parametrize(
    "position",
    [
        TokenLogprob(token="a", logprob=math.nan),
        TokenLogprob(token="a", logprob=None, top=(("b", -1.0),)),
        TokenLogprob(token="a", logprob=0.5),
        TokenLogprob(token="a", logprob=-0.1, top=(("a", -0.1), ("b", -0.1))),
    ],
)
def test_impossible_probabilities_fail(position: TokenLogprob) -> None:
    bad = answer("bad", 0, "whole", logprobs=[position] * TOKENS)
    assert judge(history([*prompts(), bad])).status is Status.FAIL


def test_no_logprobs_at_all_are_not_garbage() -> None:
    silent = answer("ok", 0, "whole", logprobs=[TokenLogprob(token="a", logprob=None)] * TOKENS)
    assert judge(history([*prompts(), silent])).status is Status.PASS


def test_the_same_token_for_every_prompt_fails_and_for_one_is_forgiven() -> None:
    stuck = {"text": "!" * 40, "token_ids": (0,) * 40, "usage": None}
    everywhere = [each for index in range(6) for each in prompt(f"p{index}", streamed=stuck, whole=stuck)]
    verdict = judge(history(everywhere))
    assert verdict.status is Status.FAIL and "one and the same token '0'" in verdict.reason
    assert judge(history([*prompts(), *prompt("p9", streamed=stuck, whole=stuck)])).status is Status.PASS


def test_tool_calls_in_whole_answers_only_fail() -> None:
    call = [{"id": "c", "name": "look_up", "arguments": '{"word": "a"}'}]
    whole: dict[str, Any] = {"kind": "tool", "tool_calls": call, "finish": "tool_calls"}
    answers = [*prompts(), *prompt("t", streamed={"kind": "tool"}, whole=whole)]
    verdict = judge(history(answers))
    assert verdict.status is Status.FAIL and "only in whole" in str([each.text for each in verdict.evidence])


def test_arguments_that_are_no_json_fail() -> None:
    call = [{"id": "c", "name": "look_up", "arguments": '{"word": '}]
    both: dict[str, Any] = {"kind": "tool", "tool_calls": call, "finish": "tool_calls",
                            "framing": Framing(finish_reasons=("tool_calls",), done_markers=1)}  # fmt: skip
    verdict = judge(history([*prompts(), *prompt("t", streamed=both, whole=both)]))
    assert verdict.status is Status.FAIL and "no JSON object" in verdict.reason


@pytest.mark.parametrize("said", [{}, {"reasoning": "let me think"}])
def test_more_reasoning_than_tokens_fails_also_beside_the_reasoning_itself(said: dict[str, str]) -> None:
    usage = replace(COUNTED, reasoning_tokens=TOKENS + 1)
    verdict = judge(history([*prompts(), answer("odd", 0, "whole", usage=usage, **said)]))
    assert verdict.status is Status.FAIL and "reasoning tokens of" in verdict.reason
