"""The verdict on two servers, on histories written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.checks.history import Answer, Capabilities, CheckHistory
from harness.checks.parity.judge import judge
from harness.checks.verdict import Status
from harness.records import Complete, Invoke, Outcome, Record, TokenLogprob, Usage
from workloads.plan import Phase

PROMPTS = 20
ARMS = (("virgin", 0), ("virgin", 1), ("hit", 0), ("hit", 1))
TOP = (-0.2, -2.0, -3.0, -4.0, -5.0)


def logprobs(shift: float) -> tuple[TokenLogprob, ...]:
    view = [value + (shift if rank % 2 else -shift) for rank, value in enumerate(TOP)]
    return tuple(
        TokenLogprob(
            token=f"t{at}", logprob=view[0], top=tuple((f"t{at}~{r}" if r else f"t{at}", v) for r, v in enumerate(view))
        )
        for at in range(16)
    )


def answer(cell: str, number: int, arm: str, index: int, *, shift: float = 0.0, **usage: Any) -> Answer:
    counts = {"prompt_tokens": 129, "completion_tokens": 16, "cached_tokens": 128 if arm == "hit" else 0, **usage}
    invoke = Invoke(
        request_id=f"{cell}-{number}-{arm}-{index}", cell=f"{cell}-r0", step="ask", key=f"parity{number}/{arm}/{index}",
        planned_ns=0, phase=Phase.MEASURE, session=f"parity{number}", arm=arm, labels={"round": number % 2},
    )  # fmt: skip
    complete = Complete(
        request_id=invoke.request_id, outcome=Outcome.OK, text="a text", finish_reason="length", usage=Usage(**counts)
    )
    return Answer(record=Record(invoke=invoke, complete=complete), logprobs=logprobs(shift))


def server(cell: str, change: Callable[[int, str], dict[str, Any]] = lambda number, arm: {}) -> tuple[Answer, ...]:
    """All prompts; `change` gives what is other than usual in an answer. Replicates differ by 0.01 nats."""
    return tuple(
        answer(cell, number, arm, index, **{"shift": 0.01 * index, **change(number, arm)})
        for number in range(PROMPTS)
        for arm, index in ARMS
    )


def history(other: tuple[Answer, ...], here: tuple[Answer, ...] | None = None) -> CheckHistory:
    answers = server("parity") if here is None else here
    return CheckHistory(answers=answers, capabilities=Capabilities(engine="vllm"), other=other)


def test_servers_that_answer_alike_pass() -> None:
    verdict = judge(history(server("parity-other", lambda number, arm: {"shift": 0.05})))
    assert verdict.status is Status.PASS, verdict.reason
    assert (verdict.details["cold_pairs"], verdict.details["hit_pairs"]) == (PROMPTS, PROMPTS)


def test_another_models_cold_answers_fail() -> None:
    verdict = judge(history(server("parity-other", lambda number, arm: {"shift": 0.8})))
    assert verdict.status is Status.FAIL
    assert "cold" in verdict.reason
    assert verdict.evidence


def test_hits_that_differ_where_colds_do_not_fail() -> None:
    verdict = judge(history(server("parity-other", lambda number, arm: {"shift": 0.8 if arm == "hit" else 0.0})))
    assert verdict.status is Status.FAIL
    assert "hit" in verdict.reason and "cold" not in verdict.reason


def test_what_one_half_alone_shows_is_suspect() -> None:
    wrong = server("parity-other", lambda number, arm: {"shift": 0.8 if number % 2 == 0 else 0.0})
    assert judge(history(wrong)).status is Status.SUSPECT


def test_prompt_tokens_that_grow_with_the_hit_fail() -> None:
    billed = server("parity-other", lambda number, arm: {"prompt_tokens": 257} if arm == "hit" else {})
    verdict = judge(history(billed))
    assert verdict.status is Status.FAIL
    assert "prompt tokens" in verdict.reason


def test_a_constant_difference_of_prompt_tokens_is_told_and_no_fault() -> None:
    verdict = judge(history(server("parity-other", lambda number, arm: {"prompt_tokens": 130})))
    assert verdict.status is Status.PASS
    assert verdict.details["prompt_token_offset"] == 1


def test_more_cached_than_asked_fails() -> None:
    doubled = server("parity-other", lambda number, arm: {"cached_tokens": 256} if arm == "hit" else {})
    assert judge(history(doubled)).status is Status.FAIL


@pytest.mark.parametrize("silent", [None, 0])
def test_hits_that_one_server_does_not_report_are_suspect(silent: int | None) -> None:
    verdict = judge(history(server("parity-other", lambda number, arm: {"cached_tokens": silent})))
    assert verdict.status is Status.SUSPECT
    assert "this server reports cached tokens for 40 hits" in verdict.reason


def test_without_another_server_there_is_nothing_to_compare() -> None:
    assert judge(history((), ())).status is Status.NOT_APPLICABLE
    assert judge(history(())).status is Status.INCONCLUSIVE


def test_too_few_prompts_are_undecided() -> None:
    few = tuple(each for each in server("parity-other") if each.record.invoke.session in {"parity0", "parity1"})
    assert judge(history(few)).status is Status.INCONCLUSIVE


def mute(answers: tuple[Answer, ...], text: str = "a text") -> tuple[Answer, ...]:
    return tuple(
        replace(each, logprobs=None, record=replace(each.record, complete=replace(each.record.complete, text=text)))
        for each in answers
    )


def test_without_log_probabilities_the_same_texts_pass_and_others_decide_nothing() -> None:
    here, there = mute(server("parity")), mute(server("parity-other"))
    assert judge(history(there, here)).status is Status.PASS
    verdict = judge(history(mute(server("parity-other"), "another"), here))
    assert verdict.status is Status.INCONCLUSIVE
    assert "20 of 20" in verdict.reason


def test_a_table_in_which_one_token_stands_for_many_written_alike_is_no_difference() -> None:
    """Of vLLM: the last token of a text wins, and the last one fell out of the table on the other server."""

    def with_broken(value: float) -> tuple[Answer, ...]:
        return tuple(
            replace(
                each,
                logprobs=tuple(
                    replace(at, top=(*at.top, ("\ufffd", value), ("", value)))
                    for at in (each.logprobs if each.logprobs is not None else ())
                ),
            )
            for each in server("parity")
        )

    verdict = judge(history(with_broken(-1.0), with_broken(-9.0)))
    assert verdict.status is Status.PASS, verdict.reason
