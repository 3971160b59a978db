"""The judge on hand-written histories: passing, failing, undecidable, empty, with fields missing, zero against None."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.checks.recall.judge import judge
from harness.checks.verdict import Status
from tests.checks.recall.histories import Shot, history, shots
from workloads.control import CONTROL
from workloads.recall import COLD, HIT, REFILLED, RETURNED

WRONG = " nothing of the kind"


def forgetting(made: list[Shot], arm: str, documents: int) -> list[Shot]:
    """The first so many documents lose their first needle in one arm."""
    return [
        replace(shot, text=WRONG) if shot.arm == arm and shot.document < documents and shot.needle == 0 else shot
        for shot in made
    ]


def test_what_comes_back_everywhere_passes_and_names_its_power() -> None:
    verdict = judge(history(shots()))
    assert verdict.status is Status.PASS and verdict.violations == 0
    assert "48 of 48 needles" in verdict.reason and "would have been found" in verdict.reason
    assert verdict.details["recall_cold"] == 1.0 and verdict.details["recall_cold_low"] > 0.9  # type: ignore[operator]


def test_without_an_eviction_the_verdict_says_what_was_not_tested() -> None:
    verdict = judge(history(shots(evicted=False)))
    assert verdict.status is Status.PASS and "Not tested: first after an eviction" in verdict.reason


@pytest.mark.parametrize("arm", [HIT, RETURNED, REFILLED])
def test_a_loss_in_one_arm_is_suspect_and_asks_for_fresh_documents(arm: str) -> None:
    verdict = judge(history(forgetting(shots(), arm, 8)))
    assert verdict.status is Status.SUSPECT
    assert verdict.follow_up is not None and verdict.follow_up.count == 32 and verdict.violations == 8
    assert verdict.evidence[0].table["value"] == "4711000"


@pytest.mark.parametrize("arm", [HIT, RETURNED, REFILLED])
def test_a_loss_that_repeats_on_fresh_documents_fails(arm: str) -> None:
    both = [*forgetting(shots(), arm, 8), *forgetting(shots(round_index=1), arm, 8)]
    verdict = judge(history(both))
    assert verdict.status is Status.FAIL and verdict.follow_up is None


def test_an_alarm_that_does_not_repeat_stays_suspect_and_asks_no_more() -> None:
    verdict = judge(history([*forgetting(shots(), HIT, 8), *shots(round_index=1)]))
    assert verdict.status is Status.SUSPECT and verdict.follow_up is None


def test_a_loss_in_nearly_all_of_many_documents_fails_at_once() -> None:
    assert judge(history(forgetting(shots(documents=24), HIT, 20))).status is Status.FAIL


def test_a_few_needles_lost_and_others_gained_are_forgiven() -> None:
    made = forgetting(shots(), HIT, 3)
    gained = [replace(s, text=WRONG) if s.arm == COLD and s.document > 12 and s.needle == 0 else s for s in made]
    assert judge(history(gained)).status is Status.PASS


def test_a_model_that_recalls_nothing_is_not_decidable() -> None:
    verdict = judge(history([replace(shot, text=WRONG) for shot in shots()]))
    assert verdict.status is Status.INCONCLUSIVE and "not decidable" in verdict.reason
    control = [replace(shot, arm=CONTROL, text=WRONG) for shot in shots(documents=2) if shot.arm == COLD]
    verdict = judge(history(control))
    assert verdict.status is Status.INCONCLUSIVE and "0 of 6 values" in verdict.reason


def test_nothing_answered_is_undecided() -> None:
    assert judge(history([])).status is Status.INCONCLUSIVE
    assert judge(history([replace(shot, lost=True) for shot in shots()])).status is Status.INCONCLUSIVE


def test_a_cache_that_is_never_hit_is_not_applicable_unless_required() -> None:
    never = [replace(shot, cached=0, ttft_ns=100) for shot in shots(evicted=False)]
    assert judge(history(never)).status is Status.NOT_APPLICABLE
    required = judge(history(never, required=frozenset({"cached-tokens"})))
    assert required.status is Status.INCONCLUSIVE and "--enable-prefix-caching" in required.reason


def test_counts_that_are_not_reported_leave_the_clock_as_a_witness() -> None:
    silent = [replace(shot, cached=None) for shot in shots()]
    assert judge(history(silent)).status is Status.PASS
    slow = [replace(shot, ttft_ns=100) for shot in silent if shot.arm in (COLD, HIT)]
    verdict = judge(history(slow))
    assert verdict.status is Status.INCONCLUSIVE and "only 0 documents" in verdict.reason


def test_an_eviction_that_did_not_happen_is_not_exercised() -> None:
    stayed = [replace(shot, cached=960) if shot.arm == RETURNED else shot for shot in shots()]
    verdict = judge(history(stayed))
    assert verdict.status is Status.INCONCLUSIVE and "first after an eviction" in verdict.reason


def test_a_needle_behind_the_end_of_the_hit_proves_nothing() -> None:
    behind = [replace(shot, begin=0.98) for shot in forgetting(shots(), HIT, 16)]
    verdict = judge(history(behind))
    assert verdict.status is Status.INCONCLUSIVE and "only 0 documents" in verdict.reason


def test_an_older_value_before_the_latest_is_wrong() -> None:
    old = [
        replace(shot, stale=("1234567",), text=" 1234567, then 4711000", kind="overwritten")
        if shot.arm == HIT and shot.needle == 0
        else shot
        for shot in shots()
    ]
    assert judge(history(old)).violations == 16


def test_a_value_inside_a_longer_number_is_wrong() -> None:
    longer = [replace(shot, text=" 94711000") if shot.arm == HIT and shot.needle == 0 else shot for shot in shots()]
    assert judge(history(longer)).violations == 16


def test_a_round_cut_short_says_so() -> None:
    verdict = judge(history(shots(documents=3), cut_short="recall-r0 was interrupted"))
    assert verdict.status is Status.INCONCLUSIVE and "interrupted" in verdict.reason


def test_a_sound_server_with_a_forgetful_model_does_not_fail() -> None:
    """Answers right at random, in every arm with the same probability, in two rounds."""
    rng = np.random.default_rng(1)
    failed = 0
    first = [*shots(), *shots(round_index=1)]
    for _ in range(60):
        made = [replace(shot, text=shot.text if rng.random() < 0.7 else WRONG) for shot in first]
        verdict = judge(history(made))
        failed += verdict.status is Status.FAIL
    assert failed == 0
