"""The judge on hand-written histories: passing, failing, undecidable, empty, with fields missing, zero against None."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.checks.cached_tokens.judge import judge
from harness.checks.verdict import Status
from harness.records import ErrorKind, Outcome, RequestError, Usage
from tests.checks.cached_tokens.histories import answer, counters, history, repeats, reused

REFUSED = RequestError(kind=ErrorKind.HTTP_STATUS, message="busy", http_status=503)


def test_a_sound_history_passes_with_three_witnesses() -> None:
    answers = repeats()
    verdict = judge(history(answers, counters(answers)))
    assert verdict.status is Status.PASS
    assert "steps of 64 tokens (offset 1, drop 0)" in verdict.reason
    assert "usage, counters and time agree" in verdict.reason
    assert (verdict.eligible, verdict.examined, verdict.violations) == (24, 24, 0)


def test_without_counters_two_witnesses_are_named() -> None:
    assert "usage and time agree" in judge(history(repeats())).reason


def test_an_empty_history_is_undecided() -> None:
    verdict = judge(history([]))
    assert verdict.status is Status.INCONCLUSIVE and verdict.examined == 0


def test_only_refused_requests_are_undecided() -> None:
    verdict = judge(history([answer(0, outcome=Outcome.REFUSED, error=REFUSED, prompt_tokens=None)]))
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.eligible == 1 and verdict.examined == 0


def test_answers_without_usage_are_undecided() -> None:
    verdict = judge(history([answer(number, prompt_tokens=None, cached_tokens=None) for number in range(4)]))
    assert verdict.status is Status.INCONCLUSIVE
    assert "prompt tokens" in verdict.reason


def test_none_is_not_zero() -> None:
    """All None: nothing is said, nothing can be wrong. All zero: an inert cache."""
    silent = judge(history([answer(number, sighting=number, cached_tokens=None) for number in range(4)]))
    zeros = judge(history([answer(number, sighting=number, cached_tokens=0) for number in range(4)]))
    assert silent.status is Status.INCONCLUSIVE and "no answer reports" in silent.reason
    assert zeros.status is Status.NOT_APPLICABLE and "inert" in zeros.reason


@pytest.mark.parametrize(
    ("engine", "flag"), [("vllm", "--enable-prompt-tokens-details"), ("sglang", "--enable-cache-report")]
)
def test_the_flag_that_switches_reports_on_is_named(engine: str, flag: str) -> None:
    verdict = judge(history([answer(0, cached_tokens=None)], engine=engine))
    assert flag in verdict.reason


@pytest.mark.parametrize("cached", [-1, 1000, 1001])
def test_an_impossible_count_fails(cached: int) -> None:
    answers = [*repeats(), answer(90, sighting=1, cached_tokens=cached, may_hit=2000)]
    verdict = judge(history(answers))
    assert verdict.status is Status.FAIL and "(K32)" in verdict.reason
    assert verdict.evidence[0].request_ids == ("q90",)


def test_one_prompt_with_two_lengths_fails() -> None:
    answers = [*repeats(), answer(90, prompt_tokens=1000), answer(91, prompt_tokens=1001, sighting=1, may_hit=1000)]
    verdict = judge(history(answers))
    assert verdict.status is Status.FAIL and "counted as 1000 and 1001" in verdict.reason


def test_tokens_nobody_ever_sent_are_a_phantom_hit() -> None:
    twin = answer(90, arm="twin", name="r0/twin0", cached_tokens=128, may_hit=0)
    verdict = judge(history([*repeats(), twin]))
    assert verdict.status is Status.FAIL and "(K27/K31)" in verdict.reason
    assert "nothing like it was sent before" in verdict.reason


def test_a_few_tokens_in_common_by_chance_are_let_go() -> None:
    twin = answer(90, arm="twin", name="r0/twin0", cached_tokens=3, may_hit=0)
    assert judge(history([*repeats(), twin])).status is Status.PASS


def test_the_head_of_a_template_may_be_shared() -> None:
    smallest = answer(90, arm="smallest", name="r0/smallest", prompt_tokens=41)
    other = answer(91, arm="twin", name="r0/twin0", cached_tokens=40, may_hit=0)
    assert judge(history([*repeats(), smallest, other])).status is Status.PASS


def test_a_salt_counts_only_where_salts_are_honoured() -> None:
    salted = answer(90, arm="salted", name="r0/salted0", cached_tokens=960, may_hit=1000)
    assert judge(history([*repeats(), salted], engine="vllm")).status is Status.FAIL
    assert judge(history([*repeats(), salted], engine="llama.cpp")).status is Status.PASS


def test_streams_and_whole_answers_that_overlap_are_let_go() -> None:
    """A server that takes turns between caches gives both counts to both kinds."""
    counts = [960, 0, 960, 0]
    mixed = [
        answer(
            90 + index, arm="stream", sighting=4 + index, cached_tokens=counts[index], may_hit=1000, stream=index < 2
        )
        for index in range(4)
    ]
    assert judge(history([*repeats(), *mixed])).status is not Status.FAIL


def test_fields_that_come_in_whole_answers_only_fail() -> None:
    rows = [
        answer(
            90 + index, arm="stream", sighting=4 + index, may_hit=1000, stream=index < 2,
            cached_tokens=None if index < 2 else 960,
        )
        for index in range(4)
    ]  # fmt: skip
    verdict = judge(history([*repeats(), *rows]))
    assert verdict.status is Status.FAIL and "(K33)" in verdict.reason
    assert any("not reported in streams, 960 in whole answers" in each.text for each in verdict.evidence)


@pytest.mark.parametrize(("engine", "status"), [("vllm", Status.FAIL), (None, Status.PASS)])
def test_a_null_for_zero_is_a_fault_of_engines_that_write_zeros(engine: str | None, status: Status) -> None:
    nulls = [answer(90 + index, name=f"r0/length{index}", cached_tokens=None) for index in range(3)]
    verdict = judge(history([*repeats(), *nulls], engine=engine))
    assert verdict.status is status, verdict.reason
    assert (status is Status.PASS) or "(K30)" in verdict.reason


def test_a_stream_that_changes_its_mind_about_the_prompt_fails() -> None:
    usages = (Usage(prompt_tokens=40, completion_tokens=1), Usage(prompt_tokens=1000, completion_tokens=4))
    odd = replace(answer(90, arm="continuous", sighting=5, cached_tokens=960, may_hit=1000), usages=usages)
    verdict = judge(history([*repeats(), odd]))
    assert verdict.status is Status.FAIL and "one stream says 40 and 1000 prompt tokens" in verdict.reason


def test_more_reasoning_than_was_generated_fails() -> None:
    odd = replace(answer(90), usages=(Usage(prompt_tokens=1000, completion_tokens=4, reasoning_tokens=9),))
    assert "9 reasoning tokens of 4" in judge(history([*repeats(), odd])).reason


def test_two_answers_at_once_may_count_their_prompt_twice() -> None:
    answers = repeats()
    double = answer(90, arm="choices", sighting=5, cached_tokens=960, may_hit=1000, stream=False, choices=2)
    samples = [*counters(answers), *counters([*answers, double, double])[-1:]]
    assert judge(history([*answers, double], samples)).status is Status.PASS


def test_counters_that_miss_every_hit_are_named_when_time_sides_with_usage() -> None:
    answers = repeats()
    verdict = judge(history(answers, counters(answers, cached={f"q{number}": 0 for number in range(24)})))
    assert verdict.status is Status.FAIL and "the counters saw no hit" in verdict.reason


def test_counters_that_saw_hits_betray_zeros() -> None:
    answers = [
        answer(number, arm="length", name=f"r0/length{length}", sighting=sighting, prompt_tokens=length, may_hit=length)
        for number, (length, sighting) in enumerate((length, s) for length in (500, 700, 900) for s in range(4))
    ]
    hits = {f"q{number}": reused(500) for number in range(12) if number % 4}
    verdict = judge(history(answers, counters(answers, cached=hits)))
    assert verdict.status is Status.FAIL and "(K30)" in verdict.reason


def test_a_counter_that_disagrees_is_a_suspicion_when_time_sides_with_usage() -> None:
    answers = repeats()
    fewer = {f"q{number}": 64 for number in range(24) if number % 4}
    verdict = judge(history(answers, counters(answers, cached=fewer)))
    assert verdict.status is Status.SUSPECT
    assert "time agrees with usage" in verdict.reason
    assert verdict.follow_up is not None and verdict.follow_up.count > 0


def test_others_traffic_leaves_only_hard_violations() -> None:
    answers = repeats()
    assert judge(history(answers, counters(answers, foreign=200))).status is Status.INCONCLUSIVE
    broken = [*answers, answer(90, sighting=1, cached_tokens=-1)]
    assert judge(history(broken, counters(broken, foreign=200))).status is Status.FAIL


def test_unreported_and_unanswered_prompts_of_ours_are_no_foreign_traffic() -> None:
    answers = repeats()
    lost = RequestError(kind=ErrorKind.DISCONNECTED, message="gone")
    more = [*answers, answer(90, prompt_tokens=1000), answer(91, prompt_tokens=1000)]
    samples = counters(more)
    unread = answer(90, prompt_tokens=None, cached_tokens=None)
    unknown = answer(91, outcome=Outcome.UNKNOWN, error=lost)
    assert "not alone" not in judge(history([*answers, unread, unknown], samples)).reason


def test_a_misfit_is_reported_and_never_a_failure() -> None:
    odd = answer(90, arm="length", name="r0/length1400", sighting=2, prompt_tokens=1400, cached_tokens=64, may_hit=1400)
    verdict = judge(history([*repeats(), odd]))
    assert verdict.status is Status.PASS
    assert verdict.details["misfit_count"] == 1 and "1 of 13 settled repeats off that rule" in verdict.reason


def test_a_round_cut_short_before_any_hit_is_undecided() -> None:
    verdict = judge(history([answer(0)], cut_short="cached-tokens-r0 was interrupted"))
    assert verdict.status is Status.INCONCLUSIVE and "interrupted" in verdict.reason


def test_later_turns_and_prefixes_are_measured() -> None:
    turns = [
        answer(
            90 + turn, arm="turn", name="r0/turns", sighting=turn, prompt_tokens=1024 + 256 * turn,
            cached_tokens=reused(768 + 256 * turn) if turn else 0, may_hit=768 + 256 * turn if turn else 0,
            prompt_hash=f"turn{turn}", turn=turn,
        )
        for turn in range(5)
    ]  # fmt: skip
    prefixes = [
        answer(
            100 + index, arm="prefix", name=f"r0/prefix{size}", sighting=1, prompt_tokens=size + 64, cached_tokens=hit,
            may_hit=size, prompt_hash=f"tail{index}", prefix=size,
        )
        for index, (size, hit) in enumerate([(65, 0), (129, 128), (257, 256)])
    ]  # fmt: skip
    details = judge(history([*repeats(), *turns, *prefixes])).details
    assert details["smallest_useful_prefix_tokens"] == 129
    assert details["later_turn_computed_tokens"] == 320
