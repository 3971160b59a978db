"""`check` before anything is asked, and what its exit code says afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from click.testing import CliRunner

from harness.checks.judgement import Judgement
from harness.checks.verdict import Status, Verdict
from harness.cli.check import check
from harness.cli.check_options import CheckOptions
from harness.cli.estimate import Rates
from harness.cli.exits import Exit
from harness.cli.verdict_output import exit_code

URL = "http://127.0.0.1:9"


def judged(*statuses: Status, broken: bool = False) -> list[Judgement]:
    found = [
        Judgement(check=status, verdict=Verdict(check=status, status=status, reason="r", examined=1))
        for status in statuses
    ]
    return [*found, *([Judgement(check="broken", traceback="broken.traceback.txt")] if broken else [])]


@pytest.mark.parametrize(
    ("judgements", "code"),
    [
        ([], Exit.PASS),
        (judged(Status.PASS, Status.NOT_APPLICABLE), Exit.PASS),
        (judged(Status.PASS, Status.INCONCLUSIVE), Exit.UNDECIDED),
        (judged(Status.SUSPECT), Exit.UNDECIDED),
        (judged(Status.FAIL, Status.INCONCLUSIVE), Exit.FAIL),
        (judged(Status.PASS, broken=True), Exit.UNSOUND),
        (judged(Status.INCONCLUSIVE, broken=True), Exit.UNSOUND),
        (judged(Status.FAIL, broken=True), Exit.FAIL),
    ],
)
def test_the_gravest_verdict_decides(judgements: Sequence[Judgement], code: Exit) -> None:
    assert exit_code(judgements) is code


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "no check is called nonsense"),
        (["--max-minutes", "0"], "--max-minutes must be above 0"),
        (["--max-tokens-total", "-5"], "--max-tokens-total must be at least 1"),
        (["--budget", "huge"], "huge"),
        (["--require", "speed"], "speed"),
        (["--note", "no-equals-sign"], "KEY=VALUE"),
        (["--base-url", "ftp://x"], "--base-url"),
        (["eviction", "--base-url", URL], "--exclusive-server"),
    ],
)
def test_a_usage_error_is_said_before_anything_is_asked(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(check, arguments)
    assert result.exit_code == 2 and words in result.output


def test_a_dry_run_asks_nothing_and_costs_only_what_is_allowed() -> None:
    shared = CliRunner().invoke(check, ["--base-url", URL, "--dry-run"])
    alone = CliRunner().invoke(check, ["--base-url", URL, "--dry-run", "--exclusive-server"])
    assert shared.exit_code == alone.exit_code == 0
    assert "cost: cached-tokens" in shared.output and "cost: eviction" not in shared.output
    assert "cost: eviction" in alone.output


def test_the_options_in_the_record_hold_no_notes_twice() -> None:
    options = CheckOptions(checks=("cached-tokens",), notes={"image": "dev"})
    assert "notes" not in options.as_json() and options.as_json()["checks"] == ("cached-tokens",)


def test_minutes_are_known_only_with_both_rates() -> None:
    rates = Rates(prompt_tokens_per_s=1000.0, output_tokens_per_s=10.0)
    assert rates.minutes(60_000, 600) == pytest.approx(2.0)
    assert Rates(prompt_tokens_per_s=None, output_tokens_per_s=10.0).minutes(1, 1) is None
