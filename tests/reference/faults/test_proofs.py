"""Each fault happens on its trigger and not beside it: compared with the healthy engine, bit for bit."""

import pytest

from benchmarks.fault_scenarios import PROOFS, Proof
from harness.reference.faults.spec import parse_fault
from tests.reference.driving import Answer, ask, drive, largest_gap, tiny_engine, tiny_options
from tests.reference.faults.playing import Played, healthy, largest_change, material, play

DRAFTS_ONLY = {key for key in PROOFS if key[0] == "K24"}
SAMPLED = {key for key in PROOFS if key[0] == "K25"}
SHOWN_BY_ANSWERS = sorted(PROOFS.keys() - DRAFTS_ONLY - SAMPLED)


def planted(key: tuple[str, str], scenario: str, *, forced: bool = True) -> Played:
    proof, (code, mode) = PROOFS[key], key
    parameters = f",{proof.parameters}" if proof.parameters else ""
    follow = healthy(scenario).tokens if forced else None
    return play(scenario, f"{code}:mode={mode}{parameters}", follow)


@pytest.mark.parametrize(("code", "mode"), SHOWN_BY_ANSWERS)
def test_changes_the_distributions_on_its_trigger(code: str, mode: str) -> None:
    proof = PROOFS[code, mode]
    faulty = planted((code, mode), proof.trigger)
    assert faulty.tokens == healthy(proof.trigger).tokens
    assert largest_change(healthy(proof.trigger), faulty) > 1e-4
    assert faulty.fault is not None and faulty.fault.dice.happened > 0


@pytest.mark.parametrize(("code", "mode"), sorted(PROOFS))
def test_changes_nothing_beside_its_trigger(code: str, mode: str) -> None:
    control = PROOFS[code, mode].control
    faulty = planted((code, mode), control, forced=False)
    assert faulty.tokens == healthy(control).tokens
    assert faulty.accepted == healthy(control).accepted
    assert largest_change(healthy(control), faulty) == 0


@pytest.mark.parametrize(("code", "mode"), sorted(DRAFTS_ONLY))
def test_draft_faults_change_acceptance_alone(code: str, mode: str) -> None:
    proof = PROOFS[code, mode]
    faulty = planted((code, mode), proof.trigger, forced=False)
    assert largest_change(healthy(proof.trigger), faulty) == 0
    assert faulty.tokens == healthy(proof.trigger).tokens
    assert faulty.accepted != healthy(proof.trigger).accepted


@pytest.mark.parametrize("mode", ["threshold", "row"])
def test_lossy_acceptance_changes_sampled_answers(mode: str) -> None:
    proof: Proof = PROOFS["K25", mode]
    assert planted(("K25", mode), proof.trigger, forced=False).tokens != healthy(proof.trigger).tokens


def test_exact_matching_accepts_nothing_at_temperature() -> None:
    faulty = planted(("K25", "exact"), PROOFS["K25", "exact"].trigger, forced=False)
    assert sum(healthy(PROOFS["K25", "exact"].trigger).accepted) > 0 == sum(faulty.accepted)


def test_a_salt_left_out_of_the_key_hits() -> None:
    faulty = play("two salts", "K27:mode=salt")
    before, after = healthy("two salts").victims[0].usage, faulty.victims[0].usage
    assert before is not None and before.cached_tokens == 0
    assert after is not None and after.cached_tokens > 0


def test_a_bfloat16_cast_is_no_fault_where_snapshots_are_bfloat16() -> None:
    def victim(fault: str | None) -> Answer:
        engine = tiny_engine(tiny_options(noise="bf16"))
        if fault is not None:
            parse_fault(fault).build().plant(engine)
        prompt = material("a", 61)
        drive(engine, [ask("fill", prompt)])
        return drive(engine, [ask("hit", prompt)])["hit"]

    assert largest_gap(victim(None), victim("K07")) == 0
    assert largest_gap(victim(None), victim("K07:mode=reinterpret")) > 1e-3


def test_two_faults_at_once_both_happen() -> None:
    follow = healthy("resend").tokens
    one, other = play("resend", "K05", follow), play("resend", "K08:mode=rank", follow)
    both = play("resend", "K05", follow, also="K08:mode=rank")
    assert largest_change(both, one) > 1e-4
    assert largest_change(both, other) > 1e-4
