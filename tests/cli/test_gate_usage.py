"""What may be typed to `gate`, and what it makes of it before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.cli.check import check
from harness.cli.gate import NOT_TAKEN, gate

MINE = """\
max_tokens_total = 5_000
[[check]]
name = "overload"
[[check]]
name = "eviction"
[[check]]
name = "stream"
[[objective]]
name = "o"
num_prompts = 2
[[objective.slo]]
metric = "completed"
min = 1
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    return str(path)


def planned(*arguments: str) -> Result:
    return CliRunner().invoke(gate, [*arguments, "--dry-run"], env={"OPENAI_BASE_URL": "http://127.0.0.1:9"})


def test_phases_are_planned_cheap_ones_first_and_overload_last(mine: str) -> None:
    result = planned("--profile", mine, "--exclusive-server")
    assert result.exit_code in (0, None), result.output
    names = [line.split()[0] for line in result.output.splitlines() if line.startswith("  ")]
    assert names[:5] == ["stream", "eviction", "objective", "overload", "heartbeat"]
    assert "capped at 5,000 tokens, which is less" in result.output


def test_what_is_typed_wins_over_the_profile(mine: str) -> None:
    assert "capped at 9,000,000 tokens" in planned("--profile", mine, "--max-tokens-total", "9000000").output


def test_what_disturbs_is_asked_of_an_exclusive_server_alone(mine: str) -> None:
    lines = planned("--profile", mine).output.splitlines()
    assert [line.split()[0] for line in lines if "only with --exclusive-server" in line] == ["eviction", "overload"]


def test_every_option_of_check_is_there_in_its_order() -> None:
    own = [param.name for param in check.params if param.name not in NOT_TAKEN]
    assert [param.name for param in gate.params if param.name in own] == own


def test_a_resumed_run_keeps_its_plan(tmp_path: Path, mine: str) -> None:
    result = CliRunner().invoke(gate, ["--resume", str(tmp_path), "--profile", mine])
    assert result.exit_code == 2
    assert "leave --profile out" in result.output
    assert CliRunner().invoke(gate, ["--resume", str(tmp_path), "--max-minutes", "3"]).exit_code == 2


def test_settings_that_make_no_sense_name_their_objective(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(MINE.replace("num_prompts = 2", "num_prompts = 2\ncontext = [4096]\ninput_len = 100"))
    result = planned("--profile", str(path))
    assert result.exit_code == 2
    assert "objective o:" in result.output
