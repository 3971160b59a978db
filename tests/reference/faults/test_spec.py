import itertools

import pytest

from benchmarks.fault_scenarios import PROOFS
from harness.reference.faults.fault import Dice
from harness.reference.faults.registry import FAULTS
from harness.reference.faults.slot_state import content_of
from harness.reference.faults.spec import describe_faults, parse_fault
from tests.reference.driving import ask, drive, tiny_engine


def test_every_class_is_there() -> None:
    assert list(FAULTS) == [f"K{number:02d}" for number in range(1, 36) if number != 16]
    assert all(fault.info.code == code for code, fault in FAULTS.items())


def test_every_mode_that_changes_answers_or_drafts_is_proven() -> None:
    modes = {
        (code, mode.name)
        for code, fault in FAULTS.items()
        for mode in fault.info.modes
        if mode.size not in ("accounting", "speed")
    }
    assert modes == set(PROOFS)


def test_a_code_alone_takes_the_first_mode_on_every_trigger() -> None:
    settings = parse_fault("K05").settings
    assert (settings.mode, settings.rate, settings.numbers) == ("zero", 1.0, {})


def test_mode_rate_seed_and_parameters() -> None:
    settings = parse_fault("K08:mode=layer,rate=0.1,seed=3,layer=2").settings
    assert (settings.mode, settings.rate, settings.seed, settings.numbers) == ("layer", 0.1, 3, {"layer": 2.0})


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("K16", "no fault 'K16'"),
        ("K05:mode=other", "it has zero, stale, write"),
        ("K05:layer=2", "no 'layer'"),
        ("K05:rate=0", "rate must be above 0"),
        ("K05:rate=2", "at most 1"),
        ("K05:rate=often", "must be a number"),
        ("K05:write", "not NAME=VALUE"),
        ("K27:rate=0.5", "takes no rate"),
    ],
)
def test_what_cannot_be_planted_says_why(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        parse_fault(text)


def test_the_list_has_a_line_for_each_fault_with_all_its_modes() -> None:
    for line, fault in zip(describe_faults(), FAULTS.values(), strict=True):
        assert line.startswith(f"{fault.info.code} {fault.info.name}: ")
        assert "\n" not in line
        assert all(f"{mode.name} ({mode.size}): " in line for mode in fault.info.modes)


def test_a_rate_is_kept_over_a_thousand_triggers() -> None:
    happened = []
    for seed in range(20):
        dice = Dice(0.02, seed)
        happened.append(sum(dice.roll() for _ in range(1000)))
        assert (dice.triggers, dice.happened) == (1000, happened[-1])
    assert all(6 <= count <= 36 for count in happened)  # binomial, beyond 3.5 sigma on both sides
    assert 17 <= sum(happened) / 20 <= 23
    assert len(set(happened)) > 3


def test_a_planted_fault_keeps_its_rate_over_a_thousand_hits_and_repeats_with_its_seed() -> None:
    engine = tiny_engine()
    drive(engine, [ask("a", range(1, 12))])
    state_io = engine.scheduler.state_io
    engine.prefiller.runner.prefill(0, [1, 2, 3, 4])
    snapshot = state_io.save_snapshot(0)
    assert content_of(snapshot).recurrent.any()
    fault = parse_fault("K01:rate=0.02,seed=5").build()
    fault.plant(engine)
    missing = []
    for _ in range(1000):
        state_io.load_snapshot(0, snapshot)
        missing.append(not state_io.state.recurrent[:, 0].any())
    assert sum(missing) == fault.dice.happened
    assert 10 <= sum(missing) <= 32
    again = Dice(0.02, 5)
    assert missing == [again.roll() for _ in range(1000)]


def test_rolls_do_not_come_in_step_with_triggers() -> None:
    dice = Dice(0.02, 0)
    gaps = [len(list(group)) for hit, group in itertools.groupby(dice.roll() for _ in range(5000)) if not hit]
    assert max(gaps) > 100 > min(gaps)
