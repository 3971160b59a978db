"""The verdict on isolation, on histories written by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.checks.isolation.judge import judge
from harness.checks.verdict import Status
from tests.checks.isolation.histories import Said, codeword, history, refused, sound


def changed(said: list[Said], count: int, **more: object) -> list[Said]:
    """The last `count` answers, as they should not be."""
    return [*said[:-count], *(replace(each, **more) for each in said[-count:])]  # type: ignore[arg-type]


def test_answers_that_company_does_not_change_pass() -> None:
    verdict = judge(history(sound()))
    assert verdict.status is Status.PASS
    assert verdict.examined == 40 and verdict.violations == 0
    assert verdict.smallest_effect == {"one answer": pytest.approx(0.3), "another token": 1.0}
    assert verdict.details["recalled_alone"] == "16 of 16"
    assert verdict.details["clustered_p"] is None


def test_a_foreign_codeword_fails_at_once() -> None:
    verdict = judge(history(changed(sound(), 1, text=codeword(2))))
    assert verdict.status is Status.FAIL and verdict.follow_up is None
    assert codeword(2) in verdict.reason and "p02" in verdict.reason
    assert verdict.evidence[0].request_ids == ("q39",)


def test_a_stranger_that_knows_the_tenants_codeword_twice_fails() -> None:
    strangers = [Said(session=s, arm="stranger", text=codeword(s)) for s in (1, 2)]
    assert judge(history([*sound(), *strangers])).status is Status.FAIL


def test_one_stranger_may_be_a_coincidence() -> None:
    strangers = [Said(session=1, arm="stranger", text=codeword(1)), Said(session=2, arm="stranger", text="1111")]
    verdict = judge(history([*sound(), *strangers, *strangers[1:] * 3]))
    assert verdict.status is Status.SUSPECT and verdict.follow_up is not None


def test_numbers_made_up_by_a_model_that_recalls_nothing_are_no_leak() -> None:
    made_up = [replace(each, text="1234") for each in sound()]
    verdict = judge(history(made_up))
    assert verdict.status is Status.PASS
    assert verdict.details["recalled_alone"] == "0 of 16"


def test_a_model_that_recalls_nothing_and_gives_no_log_probabilities_is_undecided() -> None:
    mute = [replace(each, text="no idea") for each in sound(logprobs=False)]
    verdict = judge(history(mute))
    assert verdict.status is Status.INCONCLUSIVE and "no codeword even alone" in verdict.reason


def test_many_answers_far_from_those_alone_fail_in_one_round() -> None:
    verdict = judge(history(changed(sound(), 3, shift=2.0)))
    assert verdict.status is Status.FAIL and verdict.violations == 3
    assert "foreground" in verdict.reason
    assert verdict.evidence[0].table["nats"] == pytest.approx(2.0, abs=0.1)


def test_a_rare_race_has_to_come_again_on_fresh_content() -> None:
    once = changed(sound(), 1, shift=2.0)
    verdict = judge(history(once))
    assert verdict.status is Status.SUSPECT and verdict.follow_up is not None
    clean = judge(history([*once, *sound(round_index=1)]))
    assert clean.status is Status.SUSPECT
    again = judge(history([*once, *changed(sound(round_index=1), 1, shift=2.0, round_index=1)]))
    assert again.status is Status.FAIL


def test_the_same_request_alone_with_two_answers_is_a_finding_too() -> None:
    said = sound()
    unsteady = [replace(each, shift=3.0) if index < 4 else each for index, each in enumerate(said)]
    verdict = judge(history(unsteady))
    assert verdict.status is Status.FAIL
    assert str(verdict.details["wrong_by_arm"]["alone"]).startswith("8 of 16")  # type: ignore[index, call-overload]


def test_a_near_tie_that_company_tips_is_forgiven() -> None:
    near = [replace(each, shift=0.1) if each.arm == "company" else each for each in sound()]
    assert judge(history(near)).status is Status.PASS


def test_an_answer_that_is_not_a_number_fails() -> None:
    verdict = judge(history(changed(sound(), 1, nan=True)))
    assert verdict.status is Status.FAIL and "not a number" in verdict.reason


def test_a_token_without_a_log_probability_is_broken_only_where_others_have_one() -> None:
    verdict = judge(history(changed(sound(), 1, null=True)))
    assert verdict.status is Status.FAIL and "without a log-probability" in verdict.reason
    assert judge(history([replace(each, null=True) for each in sound()])).status is Status.PASS


def test_without_log_probabilities_lost_codewords_count_against_those_alone() -> None:
    said = sound(logprobs=False)
    assert judge(history(said)).status is Status.PASS
    lost = judge(history(changed(said, 12, text="no idea")))
    assert lost.status is Status.FAIL and lost.smallest_effect == {}
    few = judge(history(changed(said, 1, text="no idea")))
    assert few.status is Status.SUSPECT


def test_nothing_answered_is_undecided() -> None:
    assert judge(history([])).status is Status.INCONCLUSIVE
    verdict = judge(history([], [refused(number) for number in range(5)]))
    assert verdict.status is Status.INCONCLUSIVE and verdict.eligible == 0


def test_too_little_company_is_undecided_and_says_why() -> None:
    verdict = judge(history(sound(sessions=4), cut_short="isolation-r0 came to its limit of time"))
    assert verdict.status is Status.INCONCLUSIVE and "limit of time" in verdict.reason


def test_wrong_answers_in_a_row_are_seen_to_cluster() -> None:
    verdict = judge(history(changed(sound(), 6, shift=2.0)))
    p_value = verdict.details["clustered_p"]
    assert isinstance(p_value, float) and p_value < 0.001


def test_a_reported_zero_of_a_log_probability_is_a_number() -> None:
    certain = [replace(each, shift=0.0) for each in sound()]
    assert judge(history(certain)).details["median_nats_by_size"] == {"8": 0.0}


@pytest.mark.parametrize(
    ("cached", "salt", "status"),
    [(64, True, Status.FAIL), (0, True, Status.PASS), (None, True, Status.PASS), (64, None, Status.PASS)],
)
def test_nothing_can_be_cached_under_a_new_salt(cached: int | None, salt: bool | None, status: Status) -> None:
    said = changed(sound(), 1, salt="s7", cached=cached)
    verdict = judge(history(said, salt=salt))
    assert verdict.status is status
    assert ("nobody left" in verdict.reason) is (status is Status.FAIL)


def test_what_is_cached_without_a_salt_may_be() -> None:
    assert judge(history(changed(sound(), 1, cached=64), salt=True)).status is Status.PASS


@pytest.mark.parametrize(("tokens", "status"), [(2, Status.FAIL), (3, Status.FAIL), (24, Status.PASS)])
def test_a_last_entry_with_others_missing_before_it_is_left_out(tokens: int, status: Status) -> None:
    apart = [replace(each, tokens=tokens, last_shift=2.0) for each in sound()[-8:]]
    assert judge(history([*sound()[:-8], *apart])).status is status
