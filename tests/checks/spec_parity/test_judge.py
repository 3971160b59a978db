"""The judge on hand-written histories: passing, failing, undecidable, empty, with fields missing, zero against None."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.checks.history import Answer, Capabilities, CheckHistory
from harness.checks.spec_parity.drawing import draws, frequent
from harness.checks.spec_parity.judge import judge
from harness.checks.spec_parity.scores import Position, Scored
from harness.checks.spec_parity.tests import sampling, surprise
from harness.checks.verdict import Status
from harness.records import TokenLogprob
from tests.checks.spec_parity.histories import LATER, Shot, history, openings, rolled_back_wrongly, sampled, shots
from workloads.spec_parity import ANSWER


def test_the_same_tokens_pass() -> None:
    verdict = judge(history(shots()))
    assert verdict.status is Status.PASS, verdict.reason
    assert (verdict.eligible, verdict.examined, verdict.null_size) == (16, 16, 16)


def test_wrong_states_ask_for_fresh_prompts_and_fail_if_those_are_wrong_too() -> None:
    first = judge(history(shots(change=rolled_back_wrongly)))
    assert first.status is Status.SUSPECT and first.follow_up is not None and "mean" in first.reason
    wrong = [*shots(change=rolled_back_wrongly), *shots(change=rolled_back_wrongly, cell="spec-parity-r1")]
    second = judge(history(wrong, rounds=2))
    assert second.status is Status.FAIL and second.evidence[0].position in LATER
    sound = [*shots(change=rolled_back_wrongly), *shots(cell="spec-parity-r1")]
    assert judge(history(sound, rounds=2)).status is Status.SUSPECT


def test_an_offset_between_decoding_and_prefill_is_forgiven() -> None:
    """A difference of differences: it is there at the clean positions too."""
    verdict = judge(history(shots(change=lambda shot: replace(shot, noise=0.2))))
    assert verdict.status is Status.PASS
    assert verdict.smallest_effect["median of later positions"] > 0.2


def test_a_few_answers_far_off_are_found() -> None:
    def two(shot: Shot) -> Shot:
        return rolled_back_wrongly(shot) if shot.name.endswith(("p3", "p4")) else shot

    verdict = judge(history(shots(change=two)))
    assert verdict.status is Status.SUSPECT and "sparse" in verdict.reason


def test_one_answer_far_off_is_forgiven() -> None:
    def one(shot: Shot) -> Shot:
        return rolled_back_wrongly(shot) if shot.name.endswith("p3") else shot

    verdict = judge(history(shots(change=one)))
    assert verdict.status is Status.PASS and verdict.details["single_answers_off"] == 1


def test_tokens_that_prefill_would_not_choose_are_found_though_few() -> None:
    def two(shot: Shot) -> Shot:
        return replace(shot, flip=3.0, off=LATER[:1]) if shot.name.endswith(("p3", "p4")) else shot

    verdict = judge(history(shots(change=two)))
    assert verdict.status is Status.SUSPECT and "hard" in verdict.reason
    assert verdict.details["rejected_beyond_nats"] == 2.0


def test_tokens_that_prefill_would_not_choose_are_found_without_tables_beside_them() -> None:
    verdict = judge(history(shots(change=lambda shot: replace(shot, flip=3.0, off=LATER, bare=True))))
    assert verdict.status is Status.SUSPECT and "by token alone" in verdict.reason and "hard" in verdict.reason


def test_near_ties_are_forgiven() -> None:
    verdict = judge(history(shots(change=lambda shot: replace(shot, flip=0.05, off=LATER))))
    assert "hard" not in verdict.reason and verdict.details["tokens_prefill_rejects"] == 0


@pytest.mark.parametrize("step", [0.2, 0.4, 0.6])
@pytest.mark.parametrize("round_of", ["a", "b", "c"])
def test_a_healthy_server_of_noise_that_comes_in_steps_is_not_accused(step: float, round_of: str) -> None:
    """As a bfloat16 hybrid of random weights: most positions the same, some far off, the first decoded one too."""
    noisy = [replace(shot, step=step, noise=0.01, name=f"{round_of}/{shot.name}") for shot in shots(32)]
    verdict = judge(history(noisy))
    assert verdict.status is Status.PASS, verdict.reason


def test_drafts_over_noise_that_comes_in_steps_are_still_found_wrong() -> None:
    noisy = [replace(rolled_back_wrongly(shot), step=0.2, noise=0.01) for shot in shots(32)]
    verdict = judge(history(noisy))
    assert verdict.status is Status.SUSPECT and "mean" in verdict.reason


def test_an_alarm_that_more_clean_positions_explain_is_withdrawn() -> None:
    """By bad luck no clean position of the answers shows the noise that their later ones do."""

    def wrong(shot: Shot) -> Shot:
        return rolled_back_wrongly(shot) if shot.name.endswith(("p3", "p4")) else shot

    both = [*shots(change=wrong), *shots(change=wrong, cell="spec-parity-r1")]
    more = [replace(shot, name=f"more/{shot.name}") for shot in shots(64, cell="spec-parity-r1")]
    steady, noisy = openings(more), openings([replace(shot, step=1.0) for shot in more])
    assert judge(history(both, steady, rounds=2)).status is Status.FAIL
    verdict = judge(history(both, noisy, rounds=2))
    assert verdict.status is Status.PASS and verdict.null_size == 96, verdict.reason


@pytest.mark.parametrize("sign", ["strange", "mute"])
def test_steps_that_are_wrong_from_their_first_row_on_are_found(sign: str) -> None:
    def wrong(shot: Shot) -> Shot:
        return replace(shot, strange=sign == "strange", mute=sign == "mute")

    first = judge(history(shots(change=wrong)))
    assert first.status is Status.SUSPECT and "foreign" in first.reason and first.follow_up is not None
    both = [*shots(change=wrong), *shots(change=wrong, cell="spec-parity-r1")]
    second = judge(history(both, rounds=2))
    assert (second.status, second.violations) == (Status.FAIL, 16)
    undrafted = [replace(shot, drafts=None) for shot in both]
    assert judge(history(undrafted, rounds=2, speculation=False)).status is Status.FAIL, "that is no noise either"


def test_an_answer_that_is_like_itself_everywhere_is_not_foreign() -> None:
    """Noise as large as what parts the positions of a loop says nothing."""
    looping = Scored(name="p", content="text", round_index=0, request_id="r", positions=(), stranger=0.2)
    position = Position(request_id="q", position=5, clean=False, gap=0.25, preference=0.0, listed=True)
    assert replace(looping, positions=(position,)).foreign
    assert not replace(looping, positions=(position,), stranger=0.6).foreign
    assert not replace(looping, positions=(position,), stranger=None).foreign
    assert not replace(looping, positions=(replace(position, gap=0.05),), stranger=0.05).foreign, "not loud"


def test_an_empty_history_is_undecided() -> None:
    verdict = judge(history([]))
    assert verdict.status is Status.INCONCLUSIVE and verdict.examined == 0
    text_only = CheckHistory(answers=(), capabilities=Capabilities(token_id_prompts=False))
    assert "token ids" in judge(text_only).reason


def test_answers_without_tables_are_undecided() -> None:
    verdict = judge(history(shots(change=lambda shot: replace(shot, tables=False))))
    assert verdict.status is Status.INCONCLUSIVE and "rescored" in verdict.reason


def test_prompts_that_are_not_as_long_as_they_should_be_are_left_out_and_counted() -> None:
    verdict = judge(history(shots(change=lambda shot: replace(shot, prompt_slip=1))))
    assert verdict.status is Status.INCONCLUSIVE and verdict.details["misaligned"] == 16 * 6


@pytest.mark.parametrize(
    ("drafts", "speculation", "status"),
    [
        (None, False, Status.PASS),
        (None, True, Status.INCONCLUSIVE),
        ((0, 0, 0), True, Status.INCONCLUSIVE),
        ((12, 36, 36), True, Status.INCONCLUSIVE),
        ((1, 0, 3), True, Status.INCONCLUSIVE),
        ((12, 0, 36), True, Status.PASS),
    ],
    ids=["none", "not counted", "zero", "nothing rejected", "few", "nothing accepted"],
)
def test_drafts_that_were_not_made_or_never_rejected_are_no_pass(
    drafts: tuple[int, int, int] | None, speculation: bool, status: Status
) -> None:
    asked = shots(change=lambda shot: replace(shot, drafts=drafts))
    assert judge(history(asked, speculation=speculation)).status is status


def test_tokens_drawn_from_what_is_told_are_no_surprise_on_average() -> None:
    found = sampling(sampled(64, 0.7))
    assert found.p_value is not None and found.p_value > 0.01
    assert judge(history(shots(), sampled(64, 0.7))).status is Status.PASS


def test_a_server_that_drafts_nothing_is_held_to_prefill_too() -> None:
    undrafted = replace_drafts(None)
    assert "no draft was seen" in judge(history(shots(change=undrafted), speculation=False)).reason
    required = judge(history(shots(change=undrafted), speculation=False, required=frozenset({"speculation"})))
    assert required.status is Status.INCONCLUSIVE
    wrong = shots(change=lambda shot: rolled_back_wrongly(undrafted(shot)))
    assert judge(history(wrong, speculation=False)).status is Status.SUSPECT
    fresh = shots(change=lambda shot: rolled_back_wrongly(undrafted(shot)), cell="spec-parity-r1")
    again = judge(history([*wrong, *fresh], speculation=False, rounds=2))
    assert again.status is Status.SUSPECT and "no draft was seen" in again.reason, "decoding is not drafting"


def replace_drafts(drafts: tuple[int, int, int] | None) -> Callable[[Shot], Shot]:
    return lambda shot: replace(shot, drafts=drafts)


def test_tokens_drawn_otherwise_fail_where_fresh_ones_are_too_and_undrafted_ones_not() -> None:
    biased, fresh = sampled(200, 0.98), sampled(200, 0.98, cell="spec-parity-r1", seed=4)
    alone = judge(history(shots(), biased))
    assert alone.status is Status.SUSPECT and alone.follow_up is not None
    assert alone.follow_up.stratum == {"tests": ["sampling"]} and "not drawn as" in alone.reason
    both = [*shots(), *shots(cell="spec-parity-r1")]
    assert judge(history(both, [*biased, *fresh], rounds=2)).status is Status.FAIL


def test_an_alarm_of_samples_that_fresh_ones_do_not_repeat_is_suspect() -> None:
    both = [*shots(), *shots(cell="spec-parity-r1")]
    fresh = sampled(200, 0.7, cell="spec-parity-r1", seed=4)
    verdict = judge(history(both, [*sampled(60, 0.98), *fresh], rounds=2))
    assert verdict.status is Status.SUSPECT and "did not repeat" in verdict.reason


def test_a_server_that_cuts_its_distribution_everywhere_does_not_do_it_by_drafting() -> None:
    both = [*shots(), *shots(cell="spec-parity-r1")]
    cut = [sampled(200, 0.98, cell=f"spec-parity-r{number}", seed=number, first_share=0.98) for number in (0, 1)]
    verdict = judge(history(both, [*cut[0], *cut[1]], rounds=2))
    assert verdict.status is Status.SUSPECT and "not by drafting" in verdict.reason


def test_tables_of_any_length_and_tokens_outside_them_are_counted() -> None:
    top = (("a", math.log(0.6)), ("b", math.log(0.3)))
    outside = TokenLogprob(token="c", logprob=math.log(0.05), top=(*top, ("c", math.log(0.05))))
    inside = TokenLogprob(token="a", logprob=math.log(0.6), top=top)
    found = draws([inside, outside, TokenLogprob(token="d", logprob=None)])
    assert found.tokens == 2 and found.p_value() is None
    assert found.expected == pytest.approx([1.2, 0.6, 0.0, 0.0, 0.2])
    assert found.excess == pytest.approx([-0.2, -0.6, 0.0, 0.0, 0.8])
    assert found.against(draws([])) == 1.0


def elsewhere(change: Callable[[Shot], Shot] = lambda shot: shot) -> tuple[Answer, ...]:
    """What another server answers to the same prompts."""
    answers = history(shots(change=lambda shot: change(replace(shot, side="elsewhere")))).answers
    return tuple(answer for answer in answers if answer.record.invoke.labels["kind"] == "answer")


def test_another_server_that_answers_the_same_is_named_in_the_pass() -> None:
    verdict = judge(history(shots(), other=elsewhere()))
    assert verdict.status is Status.PASS and "from the other server" in verdict.reason


def test_another_server_that_answers_otherwise_fails_when_both_halves_show_it() -> None:
    other = elsewhere(lambda shot: replace(shot, shift=1.0, off=tuple(range(2, 24))))
    verdict = judge(history(shots(), other=other))
    assert verdict.status is Status.FAIL and "both halves" in verdict.reason


def test_two_prompts_that_another_server_answers_otherwise_are_suspect() -> None:
    def two(shot: Shot) -> Shot:
        return replace(shot, shift=1.0, off=tuple(range(2, 24))) if shot.name.endswith(("p2", "p4")) else shot

    assert judge(history(shots(), other=elsewhere(two))).status is Status.SUSPECT


def test_samples_of_another_server_are_the_undrafted_ones() -> None:
    found = sampling(sampled(64, 0.98), sampled(64, 0.7, seed=4))
    assert found.undrafted == 64 and found.p_value is not None and found.p_value < 1e-4


def test_too_few_samples_have_no_p_value() -> None:
    assert sampling(sampled(3, 0.7)).p_value is None


def test_surprise_of_a_token_below_the_table_counts_as_its_last() -> None:
    top = (("a", math.log(0.5)), ("b", math.log(0.25)))
    expected = 0.5 * math.log(0.5) + 0.5 * math.log(0.25)
    below = TokenLogprob(token="z", logprob=-9.0, top=top)
    assert surprise(below) == pytest.approx(math.log(0.25) - expected)
    assert surprise(TokenLogprob(token="a", logprob=None)) is None


def test_tables_with_a_token_that_many_are_written_like_are_not_counted() -> None:
    """Of llama.cpp: bytes that are no character; one drawn from outside the table looks like one in it."""
    plain = TokenLogprob(token="b", logprob=-3.0, top=(("a", -0.1), ("c", -4.0)))
    broken = replace(plain, token="\ufffd", top=(("a", -0.1), ("\ufffd", -4.0)))
    assert draws([plain, broken, broken]).tokens == draws([plain]).tokens == 1
    assert draws([replace(plain, token="\ufffd")]).tokens == 1


def test_nothing_is_rescored_behind_a_place_where_several_tokens_may_be_written_as_one() -> None:
    """Of llama.cpp: fewer entries than tokens, so that ids after the first broken character are not the answer's."""

    def merged(answer: Answer, place: int) -> Answer:
        if answer.record.invoke.labels["kind"] != ANSWER or answer.logprobs is None:
            return answer
        done = answer.record.complete
        usage = replace(done.usage, completion_tokens=27) if done.usage is not None else None
        tables = tuple(replace(table, token="é") if at == place else table for at, table in enumerate(answer.logprobs))
        return replace(answer, record=replace(answer.record, complete=replace(done, usage=usage)), logprobs=tables)

    seen = history(shots(change=rolled_back_wrongly))
    early = judge(replace(seen, answers=tuple(merged(each, 3) for each in seen.answers)))
    assert early.status is Status.INCONCLUSIVE and "do not give again" in early.reason
    assert early.details["misaligned"] == 16 * len(LATER)
    late = judge(replace(seen, answers=tuple(merged(each, 15) for each in seen.answers)))
    assert late.status is Status.SUSPECT and late.details["misaligned"] == 16


def words(number: int, shares: tuple[float, ...], seed: int) -> list[TokenLogprob]:
    """Tokens drawn by `shares`, beside a table that says that all three are nearly alike."""
    top = tuple((word, math.log(share)) for word, share in (("a", 0.34), ("b", 0.33), ("c", 0.33)))
    drawn = random.Random(seed).choices([word for word, _ in top], shares, k=number)
    return [TokenLogprob(token=word, logprob=dict(top)[word], top=top) for word in drawn]


def test_tokens_counted_one_by_one_show_what_their_probabilities_hide() -> None:
    told, other = words(600, (1, 1, 1), 1), words(600, (1.5, 1, 0.5), 2)
    tokens = frequent(told)
    assert set(tokens) == {"a", "b", "c"} and frequent(told[:50]) == ()
    right, wrong, again = (draws(each, tokens) for each in (told, other, words(600, (1.5, 1, 0.5), 3)))
    assert right.p_value() is not None and (right.p_value() or 0.0) > 0.01
    assert wrong.p_value() is not None and (wrong.p_value() or 0.0) < 1e-6
    assert (draws(other).p_value() or 0.0) > 0.01
    assert wrong.along(again, right) < 1e-3 < wrong.along(right, right)
    assert wrong.along(again, draws([], tokens)) == 1.0


def test_tokens_off_one_by_one_alone_ask_for_more_that_are_never_drafted_and_fail_if_those_are_not() -> None:
    """Three tokens of one probability: how often each is drawn shows in no group of probabilities."""

    def drawing(cell: str, seed: int) -> list[Answer]:
        return [
            replace(each, logprobs=(*words(1, (1, 1, 1), seed + at), *words(23, (1.5, 1, 0.5), 1000 + seed + at)))
            for at, each in enumerate(sampled(150, 0.7, cell=cell))
        ]

    early = drawing("spec-parity-r0", 0)
    alone = judge(history(shots(), early))
    assert alone.status is Status.SUSPECT and alone.follow_up is not None
    assert alone.follow_up.stratum == {"tests": ["sampling", "one by one"]}
    asked = [*early, *drawing("spec-parity-r1", 5000)]
    verdict = judge(history([*shots(), *shots(cell="spec-parity-r1")], asked, rounds=2))
    assert verdict.status is Status.FAIL, verdict.reason
