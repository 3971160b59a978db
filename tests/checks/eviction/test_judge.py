from __future__ import annotations

from dataclasses import replace

import pytest

from harness.checks.eviction.arms import is_warm
from harness.checks.eviction.judge import judge
from harness.checks.history import Capabilities
from harness.checks.verdict import Status, Verdict
from harness.records import CounterSample
from tests.checks.eviction.histories import CACHED, FAR, HEALTHY, STEPPED, Shot, both, history, shifted

HITS = ("hit", "cotraffic-hit", "refilled")
ALL_HITS = (*HITS, "far")


def test_identical_answers_pass_and_the_verdict_says_what_it_could_not_see() -> None:
    verdict = judge(history())
    assert verdict.status is Status.PASS
    assert "blind below 0.2" in verdict.reason
    assert verdict.null_size == 32
    assert verdict.examined == 32
    assert max(verdict.smallest_effect.values()) <= 0.35
    assert any("returned/virgin" in name for name in verdict.smallest_effect)
    assert any("at 1-16 tokens" in name for name in verdict.smallest_effect)


def test_a_lasting_offset_of_all_hits_is_forgiven() -> None:
    verdict = judge(history(change=shifted(ALL_HITS, 0.05, seed="offset")))
    assert verdict.status is Status.PASS


def test_noise_of_every_request_is_forgiven() -> None:
    verdict = judge(history(change=lambda index, shot: replace(shot, shift=0.03, seed=f"{shot.arm}{shot.number}")))
    assert verdict.status is Status.PASS


def test_a_spoilt_hit_is_suspected_and_asked_about_again() -> None:
    verdict = judge(history(change=shifted(HITS, 1.0)))
    assert verdict.status is Status.SUSPECT
    assert verdict.follow_up is not None
    assert verdict.follow_up.count == 64
    assert verdict.evidence
    assert verdict.evidence[0].request_ids


def test_a_spoilt_hit_that_fresh_prompts_repeat_fails() -> None:
    verdict = judge(history(change=shifted(HITS, 1.0), fresh=64))
    assert verdict.status is Status.FAIL
    assert verdict.follow_up is None
    assert "hit/cold" in verdict.reason


def test_an_alarm_that_fresh_prompts_do_not_repeat_stays_a_suspicion() -> None:
    verdict = judge(history(change=shifted(HITS, 1.0), fresh=64, fresh_change=lambda index, shot: shot))
    assert verdict.status is Status.SUSPECT
    assert verdict.follow_up is None


def test_returned_answers_that_differ_from_the_first_ones_fail() -> None:
    verdict = judge(history(change=shifted(("returned",), 0.3), fresh=64))
    assert verdict.status is Status.FAIL
    assert "returned/virgin" in verdict.reason


def test_without_a_second_cold_answer_a_small_difference_of_returned_ones_proves_nothing() -> None:
    shots = [shot for shot in HEALTHY if (shot.arm, shot.number) not in {("virgin", 1), ("cotraffic-cold", 0)}]
    small = judge(history(change=shifted(("returned",), 0.08), shots=shots))
    assert small.status is Status.PASS
    gross = judge(history(change=shifted(("returned",), 1.0), shots=shots, fresh=64))
    assert gross.status is Status.FAIL


def test_a_gross_fault_in_one_of_ten_hits_fails() -> None:
    verdict = judge(history(change=shifted(HITS, 2.0, every=10), fresh=64))
    assert verdict.status is Status.FAIL


def test_an_offset_of_short_tails_alone_never_fails() -> None:
    spoilt = shifted(HITS, 0.25, seed="kernel")

    def fresh(index: int, shot: Shot) -> Shot:
        return spoilt(index, shot) if index % 2 == 0 else shot

    verdict = judge(history(change=spoilt, fresh=64, fresh_change=fresh))
    assert verdict.status is Status.SUSPECT
    assert "tail" in verdict.reason


def test_the_same_offset_fails_where_cold_runs_end_in_the_same_shape() -> None:
    spoilt = shifted(HITS, 0.25, seed="kernel")
    verdict = judge(history(change=spoilt, fresh=64, labels=lambda index: {"aligned": True}))
    assert verdict.status is Status.FAIL


def small_fault(shots: tuple[Shot, ...], arms: tuple[str, ...]) -> Verdict:
    """A difference of 0.1 nats of some arms, on short tails only as far as the plan has long ones."""
    spoilt = shifted(arms, 0.1, seed="layer")

    def fresh(index: int, shot: Shot) -> Shot:
        return spoilt(index, shot) if index % 2 == 0 else shot

    return judge(history(change=spoilt, fresh=64, fresh_change=fresh, shots=shots, labels=lambda _: {"stepped": True}))


def test_a_cold_answer_of_the_hits_shape_shows_what_the_others_leave_open() -> None:
    assert small_fault(HEALTHY, HITS).status is Status.PASS
    found = small_fault((STEPPED, *HEALTHY), HITS)
    assert found.status is Status.FAIL
    assert "hit/cold, same shape" in found.reason


def test_an_offset_that_a_cold_answer_of_the_hits_shape_has_too_is_forgiven() -> None:
    assert small_fault((STEPPED, *HEALTHY), ("stepped", *HITS)).status is Status.PASS


def test_an_offset_of_hits_near_and_far_is_forgiven_beside_a_cold_answer_of_their_shape() -> None:
    verdict = judge(
        history(
            change=shifted(ALL_HITS, 0.1, seed="offset"),
            shots=(STEPPED, *HEALTHY),
            labels=lambda _: {"stepped": True},
        )
    )
    assert verdict.status is Status.PASS


def test_a_cold_answer_of_the_hits_shape_makes_a_pass_see_more() -> None:
    verdict = judge(history(shots=(STEPPED, *HEALTHY), labels=lambda _: {"stepped": True}))
    assert verdict.status is Status.PASS
    blind = verdict.details["blind_nats"]
    assert isinstance(blind, float)
    assert blind <= 0.1


def test_a_refill_by_decoding_is_judged_against_cold_answers_alone() -> None:
    decoded = Shot(arm="refilled-decode", number=0, cached=704)
    shots = (STEPPED, *HEALTHY, decoded)
    small = judge(history(change=shifted(("refilled-decode",), 0.04), shots=shots, labels=lambda _: {"stepped": True}))
    assert small.status is Status.PASS
    gross = judge(history(change=shifted(("refilled-decode",), 1.0), shots=shots, fresh=64))
    assert gross.status is Status.FAIL
    assert "refilled-decode/cold" in gross.reason


def test_a_lost_memory_fails_although_the_far_resume_lost_it_too() -> None:
    verdict = judge(history(change=shifted(ALL_HITS, 1.5), fresh=64))
    assert verdict.status is Status.FAIL
    assert "absolute" in verdict.reason or "hard" in verdict.reason


def test_cold_answers_that_differ_leave_nothing_to_compare_with() -> None:
    apart = shifted(("virgin",), 0.2, seed="cold")
    verdict = judge(history(change=lambda index, shot: apart(index, shot) if shot.number == 1 else shot))
    assert verdict.status is Status.INCONCLUSIVE
    assert "cold answers" in verdict.reason


def test_cold_answers_grossly_apart_fail_while_hits_repeat_themselves() -> None:
    apart = shifted(("virgin",), 1.5, seed="cold")
    verdict = judge(history(change=lambda index, shot: apart(index, shot) if shot.number == 1 else shot, fresh=64))
    assert verdict.status is Status.FAIL
    assert "virgin/virgin" in verdict.reason


def test_single_cold_answers_whose_tokens_change_against_a_clear_preference_fail() -> None:
    apart = shifted(("virgin",), 3.0, seed="cold", every=8)
    verdict = judge(history(change=lambda index, shot: apart(index, shot) if shot.number == 1 else shot, fresh=64))
    assert verdict.status is Status.FAIL
    assert "virgin/virgin (hard" in verdict.reason


def test_a_noisy_endpoint_is_undecidable() -> None:
    noisy = judge(history(change=lambda index, shot: replace(shot, shift=0.6, seed=f"{shot.arm}{shot.number}")))
    assert noisy.status is Status.INCONCLUSIVE
    assert "blind below" in noisy.reason


def test_too_few_prompts_are_undecidable() -> None:
    assert judge(history(4)).status is Status.INCONCLUSIVE


def test_an_empty_history_is_undecidable_and_no_cache_is_not_applicable() -> None:
    assert judge(history(0)).status is Status.INCONCLUSIVE
    uncached = judge(history(0, capabilities=Capabilities(cached_tokens=False)))
    assert uncached.status is Status.NOT_APPLICABLE


def test_a_history_of_failed_requests_is_undecidable() -> None:
    verdict = judge(history(change=lambda index, shot: replace(shot, failed=True)))
    assert verdict.status is Status.INCONCLUSIVE


def test_hits_that_never_came_are_not_a_pass() -> None:
    missed = judge(history(change=lambda index, shot: replace(shot, cached=0)))
    assert missed.status is Status.INCONCLUSIVE
    assert "only 0 of 32 prompts were hit" in missed.reason


def test_an_eviction_that_never_happened_is_not_a_pass() -> None:
    kept = judge(history(change=lambda i, shot: replace(shot, cached=704) if shot.arm == "returned" else shot))
    assert kept.status is Status.INCONCLUSIVE
    assert "nothing was ever evicted" in kept.reason


def test_what_stays_mapped_after_a_flood_is_judged_as_the_hit_it_claims_to_be() -> None:
    def mapped(index: int, shot: Shot) -> Shot:
        return replace(shot, cached=704, shift=2.0, seed="other") if shot.arm == "returned" else shot

    verdict = judge(history(change=mapped, fresh=64))
    assert verdict.status is Status.FAIL
    assert "never went cold" in verdict.reason


@pytest.mark.parametrize("cached", [0, None])
def test_hits_whose_count_is_lost_are_recognised_by_the_clock(cached: int | None) -> None:
    def lost(index: int, shot: Shot) -> Shot:
        return replace(shot, cached=cached, quick=True) if shot.cached else shot

    verdict = judge(history(change=both(lost, shifted(HITS, 1.0)), fresh=64))
    assert verdict.status is Status.FAIL


def test_a_count_of_none_without_a_quick_answer_is_no_hit() -> None:
    def silent(index: int, shot: Shot) -> Shot:
        return replace(shot, cached=None, quick=False)

    assert judge(history(change=silent)).status is Status.INCONCLUSIVE


def test_anothers_code_in_an_answer_fails_at_once() -> None:
    def leaked(index: int, shot: Shot) -> Shot:
        return replace(shot, text="it is 1000005.") if index == 3 and shot.arm == "returned" else shot

    verdict = judge(history(change=leaked, labels=lambda index: {"code": str(1_000_000 + index)}))
    assert verdict.status is Status.FAIL
    assert verdict.violations == 1
    assert "p005" in verdict.evidence[0].text


def test_ones_own_code_and_parts_of_numbers_are_forgiven() -> None:
    def own(index: int, shot: Shot) -> Shot:
        return replace(shot, text=f"{1_000_000 + index} and 91000005")

    assert judge(history(change=own, labels=lambda index: {"code": str(1_000_000 + index)})).status is Status.PASS


def test_the_exact_tier_suspects_what_identical_repeats_do_not_show() -> None:
    verdict = judge(history(change=shifted(("returned",), 0.012)))
    assert verdict.status is Status.SUSPECT
    assert verdict.details["exact_tier"] is True


def test_the_exact_tier_fails_a_server_declared_deterministic() -> None:
    known = Capabilities(cached_tokens=True, logprobs=20, deterministic=True)
    verdict = judge(history(change=shifted(HITS, 0.012), fresh=64, capabilities=known))
    assert verdict.status is Status.FAIL
    assert judge(history(change=shifted(HITS, 0.012), fresh=64)).status is Status.PASS


def _of_text(index: int, shot: Shot) -> Shot:
    return replace(shot, logprobs=False, text="the same text" * 4)


def test_texts_alone_can_fail_and_pass() -> None:
    def garbled(index: int, shot: Shot) -> Shot:
        text = "x another text" if shot.arm in ("hit", "refilled") else "the same text" * 4
        return replace(shot, logprobs=False, text=text)

    assert judge(history(change=garbled, fresh=64)).status is Status.FAIL
    sound = judge(history(change=_of_text))
    assert sound.status is Status.PASS
    assert "texts alone" in sound.reason
    assert "blind to what changes less than" in sound.reason


def test_texts_that_part_all_the_time_or_are_few_are_undecidable() -> None:
    def unsteady(index: int, shot: Shot) -> Shot:
        return replace(shot, logprobs=False, text=f"the same{index % 3 * shot.number}{shot.arm}" * 4)

    assert judge(history(change=unsteady)).status is Status.INCONCLUSIVE
    assert judge(history(10, change=_of_text)).status is Status.INCONCLUSIVE


def test_lost_codes_fail_without_logprobs() -> None:
    def forgetful(index: int, shot: Shot) -> Shot:
        mine = f"code {1_000_000 + index}"
        return replace(shot, logprobs=False, text="code unknown" if shot.arm == "hit" else mine)

    labels = lambda index: {"code": str(1_000_000 + index), "needle": True}  # noqa: E731
    verdict = judge(history(change=forgetful, fresh=64, labels=labels))
    assert verdict.status is Status.FAIL


def test_a_server_that_others_use_is_not_judged() -> None:
    told = history(change=shifted(HITS, 1.0), fresh=64)
    ours = sum(
        answer.record.complete.usage.prompt_tokens or 0 for answer in told.answers if answer.record.complete.usage
    )
    for extra, status in ((0, Status.FAIL), (50_000, Status.INCONCLUSIVE)):
        moved = [{"prompt_tokens": 10.0}, {"prompt_tokens": 10.0 + ours + extra}]
        counters = tuple(CounterSample(at_ns=at, values=values) for at, values in enumerate(moved))
        assert judge(replace(told, counters=counters)).status is status


def test_a_round_that_ended_early_is_named() -> None:
    assert "out of tokens" in judge(replace(history(4), cut_short="out of tokens")).reason


def test_a_prompt_too_short_to_be_cached_shows_what_a_slot_kept() -> None:
    shorts = [Shot(arm="short", number=number, cached=0) for number in range(3)]

    def kept(index: int, shot: Shot) -> Shot:
        return replace(shot, shift=1.5, seed=str(shot.number)) if shot.number else shot

    verdict = judge(history(shots=shorts, change=kept, fresh=64))
    assert verdict.status is Status.FAIL
    assert "short/short" in verdict.reason
    assert judge(history(shots=shorts)).status is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("arm", "cached", "quick", "counted", "warm"),
    [
        ("hit", 704, None, None, True),
        ("hit", 704, False, 0, True),  # judged as what it claims to be
        ("hit", 0, True, None, True),
        ("hit", 0, None, 704, True),
        ("returned", 0, True, 704, True),
        ("returned", 0, None, 704, False),  # one witness against another
        ("hit", 0, True, 0, False),
        ("returned", None, None, None, None),
        ("virgin", None, False, None, False),
    ],
)
def test_two_of_usage_counters_clock_and_plan_say_what_was_a_hit(
    arm: str, cached: int | None, quick: bool | None, counted: int | None, warm: bool | None
) -> None:
    assert is_warm(arm, cached, quick, counted) is warm


def test_hits_without_a_far_resume_to_hold_them_against_are_not_a_pass() -> None:
    verdict = judge(history(shots=[shot for shot in HEALTHY if shot.arm != "far"]))
    assert verdict.status is Status.INCONCLUSIVE
    assert "hits were not measured" in verdict.reason


PARTIAL = Shot(arm="partial", number=0, cached=FAR)


def test_what_is_left_of_a_prompt_is_held_against_the_resume_from_far_back() -> None:
    shots = (*HEALTHY, PARTIAL)
    healthy = judge(history(shots=shots))
    assert healthy.status is Status.PASS and "32 in part (blind below 0." in healthy.reason
    assert healthy.details["returned_partial"] == 32
    spoilt = judge(history(change=shifted(("partial",), 0.08), fresh=64, shots=shots))
    assert spoilt.status is Status.FAIL and "partial/far" in spoilt.reason


def test_a_partial_return_that_lost_everything_is_a_cold_one() -> None:
    gone = replace(PARTIAL, cached=0)
    verdict = judge(history(shots=(*HEALTHY, gone)))
    assert verdict.status is Status.PASS and verdict.details["returned_partial"] == 0
    wrong = judge(history(change=shifted(("partial",), 0.2), fresh=64, shots=(*HEALTHY, gone)))
    assert wrong.status is Status.FAIL and "partial/virgin" in wrong.reason


def test_one_comparison_that_cannot_be_relied_on_leaves_no_pass() -> None:
    def wild(index: int, shot: Shot) -> Shot:
        return replace(shot, shift=1.5, seed=f"{shot.arm}{shot.number}") if shot.arm == "cotraffic-cold" else shot

    shots = (STEPPED, *(shot for shot in HEALTHY if shot.arm != "cotraffic-hit"))
    verdict = judge(history(change=wild, shots=shots, labels=lambda _: {"stepped": True}))
    assert verdict.status is Status.INCONCLUSIVE and "not to be relied on" in verdict.reason


def test_a_far_resume_that_differs_more_than_hits_do_is_wrong_itself() -> None:
    verdict = judge(history(change=shifted(("far",), 0.3), fresh=64))
    assert verdict.status is Status.FAIL and "far/cold" in verdict.reason
    offset = judge(history(change=both(shifted(("far",), 0.08), shifted(HITS, 0.05, seed="offset")), fresh=64))
    assert offset.status is Status.PASS


TOGETHER = Shot(arm="refilled-together", number=0, cached=CACHED)
FORKED = Shot(arm="refilled-fork", number=0, cached=512)


def test_prompts_that_were_filled_together_are_held_against_those_filled_alone() -> None:
    shots = (*HEALTHY, TOGETHER)
    healthy = judge(history(shots=shots))
    assert healthy.status is Status.PASS and "32 refilled together (blind below 0.0" in healthy.reason
    few = judge(history(change=shifted(("refilled-together",), 0.5, every=8), fresh=64, shots=shots))
    assert few.status is Status.FAIL and "refilled-together/hit (sparse)" in few.reason


def test_a_fork_that_resumes_too_deep_is_found_and_one_that_resumes_earlier_is_not_accused() -> None:
    healthy = judge(history(shots=(*HEALTHY, FORKED)))
    assert healthy.status is Status.PASS and healthy.details["refilled_fork"] == 32
    deep = replace(FORKED, cached=CACHED)
    wrong = judge(history(change=shifted(("refilled-fork",), 0.5, every=5), fresh=64, shots=(*HEALTHY, deep)))
    assert wrong.status is Status.FAIL and "refilled-fork/hit" in wrong.reason


def test_a_refilled_answer_that_agrees_with_the_cold_one_is_right_where_its_hit_took_another_route() -> None:
    def on_the_brink(index: int, shot: Shot) -> Shot:
        return replace(shot, shift=0.19, seed="route") if index == 7 and shot.arm in ("hit", "far") else shot

    assert judge(history(change=on_the_brink)).status is Status.PASS
