"""What the self-test plants, who looks for it, and what it refuses."""

from __future__ import annotations

from argparse import ArgumentParser

import pytest
from click.testing import CliRunner

from harness.checks.matrix import Matrix
from harness.checks.registry import CHECKS
from harness.checks.verdict import Status
from harness.cli.exits import Exit
from harness.cli.selftest import selftest
from harness.cli.selftest_plan import CONTROL, HEALTHY, QUICK, WATCHES, chosen, modes, planted, variants
from harness.cli.selftest_run import exit_code_of
from harness.reference.faults.registry import FAULTS
from harness.reference.faults.spec import parse_fault
from harness.reference.options import add_arguments, from_values
from tests.checks.test_matrix import FOUND, SOUND, SUSPECTED, trial


def test_every_fault_in_every_mode_is_watched_for() -> None:
    for name in modes():
        each = planted(name, full=False)
        assert each.checks and set(each.checks) <= set(CHECKS)
        assert each.engine[-2] == "--fault"
        assert parse_fault(each.engine[-1]).settings.mode == each.mode


def test_no_watch_is_for_a_fault_or_a_mode_that_does_not_exist() -> None:
    known = {*FAULTS, *modes(), CONTROL}
    assert set(WATCHES) <= known


def test_the_control_is_a_healthy_variant_and_no_fault() -> None:
    assert CONTROL not in modes()
    assert any("K07:mode=cast" in arguments for arguments in HEALTHY.values())


def test_quick_is_twelve_faults_of_sizes_that_have_to_be_found() -> None:
    assert len(QUICK) == 12 and set(QUICK) <= set(modes())
    assert {planted(name, full=False).size for name in QUICK} <= {"gross", "medium", "accounting"}


def test_full_asks_every_check() -> None:
    assert planted("K01:skip", full=True).checks == tuple(CHECKS)
    assert all(each.checks == tuple(CHECKS) for each in variants(tuple(HEALTHY)))


def test_a_baseline_is_the_same_engine_without_the_fault() -> None:
    (with_one,) = {each.code for each in (planted(name, full=False) for name in modes()) if each.baseline is not None}
    assert with_one == "K24"
    assert planted("K24:tier", full=False).baseline == planted("K24:tier", full=True).engine[:-2]


def test_faults_are_chosen_by_code_or_by_mode() -> None:
    assert chosen(["K05:write"]) == ("K05:write",)
    assert chosen(["K12", "K05"]) == ("K05:zero", "K05:stale", "K05:write", "K12:modulo")
    with pytest.raises(ValueError, match="no K99"):
        chosen(["K99"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--faults", "K99"], "there is no K99"), (["--faults", "K01", "--quick"], "give one of them")],
)
def test_usage_errors_start_nothing(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(selftest, arguments)
    assert result.exit_code == Exit.USAGE and words in result.output


def test_a_dry_run_names_every_trial() -> None:
    result = CliRunner().invoke(selftest, ["--quick", "--dry-run"])
    assert len(result.output.splitlines()) == 13
    assert "K12 modulo: isolation" in result.output


@pytest.mark.parametrize(
    ("matrix", "code"),
    [
        (Matrix(faults=(FOUND,), healthy=(SOUND,)), Exit.PASS),
        (Matrix(faults=(FOUND, SUSPECTED)), Exit.FAIL),
        (Matrix(faults=(FOUND,), healthy=(trial("", "healthy", Status.FAIL),)), Exit.FAIL),
        (Matrix(healthy=(trial("", "healthy", None),)), Exit.UNSOUND),
    ],
)
def test_the_exit_code_follows_from_the_matrix(matrix: Matrix, code: Exit) -> None:
    assert exit_code_of(matrix) is code


def test_every_engine_of_the_plan_can_be_built() -> None:
    parser = ArgumentParser()
    add_arguments(parser)
    for each in (*(planted(name, full=False) for name in modes()), *variants(tuple(HEALTHY))):
        options = from_values(vars(parser.parse_args(each.engine)))
        assert options.noise == "bf16" and len(options.fault) == each.engine.count("--fault")
