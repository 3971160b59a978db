"""The judge on hand-written histories: passing, failing, undecidable, empty, with fields missing, zero against None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from harness.checks.history import Capabilities, CheckHistory
from harness.checks.mtp.judge import judge
from harness.checks.verdict import Status, Verdict
from tests.checks.mtp.histories import Change, Shot, halved_on, history, shots, unchanged, watched
from workloads.mtp import COLD, HIT, RETURNED, SAMPLED
from workloads.plan import Json


def acceptance_length(verdict: Verdict, group: str) -> float:
    table = verdict.details["acceptance"]
    assert isinstance(table, Mapping)
    row = table[group]
    assert isinstance(row, Mapping)
    return float(str(row["acceptance_length"]))


def test_accounts_that_add_up_pass_with_an_interval_and_their_source() -> None:
    verdict = judge(history(shots()))
    assert verdict.status is Status.PASS, verdict.reason
    assert "by counters" in verdict.reason and "hits accept 100%" in verdict.reason
    assert verdict.examined == verdict.eligible == 40


def test_classes_are_told_apart() -> None:
    verdict = judge(history(shots()))
    assert acceptance_length(verdict, "random, cold") < acceptance_length(verdict, "copy, cold")


@pytest.mark.parametrize(
    ("counters", "fields", "source"), [(True, True, "counters"), (False, True, "the answers' own fields")]
)
def test_the_best_source_is_named(counters: bool, fields: bool, source: str) -> None:
    assert judge(history(shots(), counters=counters, fields=fields)).details["source"] == source


def test_stream_events_are_the_last_resort() -> None:
    asked = shots(
        change=lambda shot: replace(shot, events=(1, *[1 + n for n, c in enumerate(shot.by_depth) for _ in range(c)]))
    )
    verdict = judge(history(asked, counters=False, fields=False))
    assert verdict.status is Status.PASS and verdict.details["source"] == "stream events"
    both = judge(history(shots()))
    assert verdict.reason.split("(")[0] == both.reason.split("(")[0]


def test_events_of_a_server_that_would_count_drafts_and_counts_none_are_no_drafts() -> None:
    """Of a real vLLM without drafts: the bytes of a character come in one event."""
    asked = shots(change=lambda shot: replace(shot, events=(1, 1, 2, 1, 1, 3, 1)))
    seen = history(asked, fields=False, speculation=False)
    without = tuple(
        replace(each, values={name: value for name, value in each.values.items() if not name.startswith("spec_")})
        for each in seen.counters
    )
    assert judge(replace(seen, counters=without)).status is Status.NOT_APPLICABLE
    elsewhere = Capabilities(engine=None, speculation=False)
    assert judge(replace(seen, counters=without, capabilities=elsewhere)).details["source"] == "stream events"


@pytest.mark.parametrize("events", [(1,) * 30, (1, 25, 25), None])
def test_events_of_one_token_or_of_many_steps_leave_it_unknown(events: tuple[int, ...] | None) -> None:
    asked = shots(change=lambda shot: replace(shot, events=events))
    verdict = judge(history(asked, counters=False, fields=False))
    assert verdict.status is Status.INCONCLUSIVE and "UNKNOWN" in verdict.reason


def test_an_empty_history_is_undecided() -> None:
    verdict = judge(history([]))
    assert verdict.status is Status.INCONCLUSIVE and verdict.examined == 0


def test_a_server_without_drafts_is_not_judged_unless_they_are_required() -> None:
    silent = history(shots(), counters=False, fields=False, speculation=False)
    assert judge(silent).status is Status.NOT_APPLICABLE
    required = judge(replace(silent, required=frozenset({"speculation"})))
    assert required.status is Status.INCONCLUSIVE


def test_no_rejection_is_no_pass() -> None:
    perfect = shots(change=lambda shot: replace(shot, by_depth=(0, 0, 0, 20)))
    verdict = judge(history(perfect))
    assert verdict.status is Status.INCONCLUSIVE and "no draft was ever rejected" in verdict.reason


def test_nothing_accepted_at_all_is_a_zero_not_an_absence() -> None:
    verdict = judge(history(shots(change=lambda shot: replace(shot, by_depth=(20, 0, 0, 0)))))
    assert verdict.status is Status.PASS and verdict.reason.startswith("acceptance length 1.00")


@pytest.mark.parametrize(
    ("reported", "rule"),
    [
        ({"num_accepted_draft_tokens": 99}, "range"),
        ({"num_accepted_draft_tokens": 61, "num_draft_tokens": 90}, "acceptance length above k + 1"),
        ({"acceptance_histogram": [1, 1, 1, 1]}, "histogram"),
        ({"num_spec_steps": 19}, "two accounts"),
        ({"num_accepted_draft_tokens": -1}, "range"),
    ],
)
def test_a_broken_identity_fails(reported: dict[str, Json], rule: str) -> None:
    asked = shots()
    asked[3] = replace(asked[3], reported=reported)
    verdict = judge(history(asked))
    assert verdict.status is Status.FAIL and rule in str(verdict.details["identities_broken"])
    assert verdict.evidence[0].request_ids == ("q3",)


def test_drafts_counted_past_the_end_fail_and_one_that_ends_an_answer_does_not() -> None:
    asked = shots()
    ended = [*asked[:3], replace(asked[3], tokens=asked[3].completion - 1), *asked[4:]]
    assert judge(history(ended)).status is Status.PASS
    past = [*asked[:3], replace(asked[3], tokens=asked[3].completion - 2), *asked[4:]]
    verdict = judge(history(past, engine="sglang"))
    assert verdict.status is Status.FAIL and "counted past the end" in verdict.reason


def test_an_engine_that_counts_its_last_step_whole_is_told_of_and_not_failed() -> None:
    asked = shots()
    past = [*asked[:3], replace(asked[3], tokens=asked[3].completion - 2), *asked[4:]]
    verdict = judge(history(past, engine="vllm"))
    assert verdict.status is Status.PASS and "behind their end" in verdict.reason
    required = judge(history(past, engine="vllm", required=frozenset({"exact-drafts"})))
    assert required.status is Status.FAIL and "counted past the end" in required.reason
    far = [*asked[:3], replace(asked[3], tokens=asked[3].completion - 5), *asked[4:]]
    assert judge(history(far, engine="vllm")).status is Status.FAIL


def sampled_shots(by_depth: tuple[int, ...]) -> list[Shot]:
    return [replace(shot, arm=SAMPLED, by_depth=by_depth) for shot in shots() if shot.arm == COLD]


def test_drafts_that_are_never_accepted_at_temperature_1_fail() -> None:
    verdict = judge(history([*shots(), *sampled_shots((20, 0, 0, 0))]))
    assert verdict.status is Status.FAIL and "at temperature 1 none of the drafts of 400 steps" in verdict.reason


def test_fewer_accepted_drafts_at_temperature_1_are_no_fault_and_no_part_of_the_mean() -> None:
    verdict = judge(history([*shots(), *sampled_shots((19, 1, 0, 0))]))
    assert verdict.status is Status.PASS
    assert verdict.reason == judge(history(shots())).reason
    told = verdict.details["temperature_1"]
    assert isinstance(told, Mapping) and told["acceptance_length"] == 1.05


def test_too_few_steps_at_temperature_1_prove_nothing() -> None:
    assert judge(history([*shots(), *sampled_shots((20, 0, 0, 0))[:9]])).status is Status.PASS


def test_steps_without_drafts_are_forgiven() -> None:
    assert judge(history(shots(change=lambda shot: replace(shot, tokens=shot.completion + 4)))).status is Status.PASS


@pytest.mark.parametrize(
    ("looks", "late"),
    [([(0, 40), (0, 80), (0, 120), (60, 160)], True), ([(10, 40), (20, 80), (40, 120), (60, 160)], False),
     ([(0, 40), (60, 160)], False)],
)  # fmt: skip
def test_counting_at_the_end_only_fails_where_it_was_seen(looks: list[tuple[int, int]], late: bool) -> None:
    answer, samples = watched(looks)
    base = history(shots())
    seen = CheckHistory(
        answers=(answer, *base.answers), counters=tuple(samples), capabilities=Capabilities(engine="vllm")
    )
    assert (judge(seen).status is Status.FAIL) is late
    assert judge(replace(seen, capabilities=Capabilities(engine="sglang"))).status is not Status.FAIL


def test_hits_that_accept_less_ask_for_fresh_prompts_and_fail_if_those_do_too() -> None:
    first = judge(history(shots(change=halved_on(HIT))))
    assert first.status is Status.SUSPECT and first.follow_up is not None
    fresh = shots(change=halved_on(HIT), cell="mtp-r1", seed=2)
    assert judge(history([*shots(change=halved_on(HIT)), *fresh], rounds=2)).status is Status.FAIL
    healthy = shots(cell="mtp-r1", seed=2)
    assert judge(history([*shots(change=halved_on(HIT)), *healthy], rounds=2)).status is Status.SUSPECT


def test_hits_without_any_cached_token_are_not_a_contrast() -> None:
    def unreported(shot: Shot) -> Shot:
        return replace(halved_on(HIT)(shot), cached=None)

    verdict = judge(history(shots(change=unreported)))
    assert verdict.status is Status.PASS and "untested" in verdict.reason


def test_less_than_the_baseline_on_the_same_prompts_fails() -> None:
    lower = shots(change=lambda shot: halved_on(HIT)(halved_on(COLD)(shot)))
    verdict = judge(history(lower, baseline=history(shots())))
    assert verdict.status is Status.FAIL and "baseline" in verdict.reason
    assert judge(history(shots(), baseline=history(lower))).status is Status.PASS


def test_less_than_a_baseline_of_other_prompts_has_to_repeat() -> None:
    def lower(shot: Shot) -> Shot:
        return replace(halved_on(HIT)(halved_on(COLD)(shot)), prompts_of="another run")

    baseline = history(shots(8))
    first = judge(history(shots(8, change=lower), baseline=baseline))
    assert first.status is Status.SUSPECT and first.follow_up is not None
    again = [*shots(8, change=lower), *shots(16, change=lower, cell="mtp-r1", seed=2)]
    assert judge(history(again, rounds=2, baseline=baseline)).status is Status.FAIL


def test_less_than_what_was_published_is_suspect_at_most() -> None:
    assert judge(history(shots(), expected_acceptance=3.9)).status is Status.SUSPECT
    assert judge(history(shots(), expected_acceptance=2.13)).status is Status.PASS


def test_second_drafts_that_are_never_accepted_are_suspect() -> None:
    verdict = judge(history(shots(change=lambda shot: replace(shot, by_depth=(8, 12, 0, 0)))))
    assert verdict.status is Status.SUSPECT and "second ones" in verdict.reason


def test_hits_of_most_of_a_prompt_are_held_against_cold_by_themselves() -> None:
    def change(shot: Shot) -> Shot:
        mostly = shot.index % 2 == 1 and shot.arm == HIT
        return replace(halved_on(HIT)(shot), cached=150) if mostly else shot

    verdict = judge(history(shots(change=change)))
    assert verdict.status is Status.SUSPECT and verdict.follow_up is not None
    contrasts = verdict.details["contrasts"]
    assert isinstance(contrasts, Mapping)
    few, most = (float(str(contrasts[name])) for name in contrasts)
    assert most < few < 1.0
    twice = [*shots(change=change), *shots(change=change, cell="mtp-r1", seed=2)]
    assert judge(history(twice, rounds=2)).status is Status.FAIL


def with_returns(change: Change = unchanged, *, cached: int = 128, cell: str = "mtp-r0") -> list[Shot]:
    asked = shots(cell=cell)
    again = [change(replace(shot, arm=RETURNED, cached=cached)) for shot in asked if shot.arm == COLD]
    return [*asked, *again]


def test_drafts_that_are_worse_behind_a_flood_alone_fail_once_fresh_prompts_repeat_it() -> None:
    change = halved_on(RETURNED)
    first = judge(history(with_returns(change)))
    assert first.status is Status.SUSPECT and first.follow_up is not None and "behind a flood" in first.reason
    assert judge(history([*with_returns(change), *with_returns(change, cell="mtp-r1")])).status is Status.FAIL
    other = judge(history([*with_returns(change), *with_returns(cell="mtp-r1")]))
    assert other.status is Status.SUSPECT and other.follow_up is None


def test_texts_that_came_back_as_they_were_pass_and_those_that_were_computed_anew_are_not_compared() -> None:
    verdict = judge(history(with_returns()))
    assert verdict.status is Status.PASS and "those behind a flood 100%" in verdict.reason
    cold = judge(history(with_returns(halved_on(RETURNED), cached=0)))
    assert cold.status is Status.PASS and "flood" not in cold.reason


def test_hits_are_compared_over_all_steps_so_that_easy_texts_hide_nothing() -> None:
    def change(shot: Shot) -> Shot:
        return replace(shot, by_depth=(0, 0, 0, 4)) if shot.content == "copy" else halved_on(HIT)(shot)

    asked = shots(8, change)
    cold, hit = ([shot for shot in asked if shot.arm == arm] for arm in (COLD, HIT))
    rates = [sum(shot.accepted for shot in arm) / sum(shot.steps for shot in arm) for arm in (hit, cold)]
    contrasts = judge(history(asked)).details["contrasts"]
    assert isinstance(contrasts, Mapping)
    assert contrasts["hits against the same prompts cold"] == pytest.approx(rates[0] / rates[1], abs=0.01)
