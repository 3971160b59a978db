"""What the command line accepts, and what it says of what it does not."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from harness.cli.main import COMMANDS, SECTIONS, ling_bench
from harness.cli.options import SweepOptions, parse_concurrency, parse_note


def test_concurrency_is_a_list_of_levels() -> None:
    assert parse_concurrency("1, 8,32") == (1, 8, 32)


@pytest.mark.parametrize("text", ["", "1,,8", "eight", "1;8", "-1"])
def test_a_level_that_is_no_number_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="--concurrency"):
        parse_concurrency(text)


def test_a_note_needs_a_key_and_may_hold_equals_signs() -> None:
    assert parse_note("env=A=1") == ("env", "A=1")
    with pytest.raises(ValueError, match="KEY=VALUE"):
        parse_note("no equals sign")


def test_options_survive_run_json() -> None:
    options = SweepOptions(concurrency=(1, 8), dataset_name="agent", goodput={"ttft": 500.0}, sampling={"top_k": 20})
    assert SweepOptions.from_json(options.as_json()) == options


def test_fields_of_a_newer_version_are_ignored() -> None:
    assert SweepOptions.from_json({"concurrency": [1], "dataset_name": "text", "new": 1}).concurrency == (1,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"concurrency": (0,)}, "at least 1"),
        ({"concurrency": (8, 8)}, "twice"),
        ({"num_prompts": 0}, "--num-prompts"),
        ({"duration_s": 0.0}, "--duration"),
        ({"cache": "hot"}, "--cache"),
    ],
)
def test_options_that_make_no_sense_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SweepOptions.from_json({"concurrency": (1,), "dataset_name": "agent", **changes})


def test_every_level_gets_the_same_number_of_requests() -> None:
    assert SweepOptions(concurrency=(1, 8, 32), dataset_name="agent").requests_per_cell == 128
    assert SweepOptions(concurrency=(1,), dataset_name="agent", duration_s=5.0).requests_per_cell is None


def test_help_groups_the_commands() -> None:
    result = CliRunner().invoke(ling_bench, ["--help"])
    assert result.exit_code == 0
    for section in SECTIONS:
        assert (f"{section}:" in result.output) == any(entry.section == section for entry in COMMANDS.values())


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_under_its_own_name(name: str) -> None:
    result = CliRunner().invoke(ling_bench, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert f"ling-bench {name}" in result.output.replace("ling-bench ling-bench", "ling-bench")


def test_the_help_of_cache_says_what_cold_means() -> None:
    words = " ".join(CliRunner().invoke(ling_bench, ["sweep", "--help"]).output.split())
    assert "cold at the start of a cell" in words
    assert "turns within a session still hit" in words


def test_emptying_the_tier_behind_belongs_to_a_flush_and_a_search_keeps_to_nonces() -> None:
    with pytest.raises(ValueError, match="--allow-l3-clear belongs to --cold-by flush"):
        SweepOptions(concurrency=(1,), dataset_name="agent", allow_l3_clear=True)
    with pytest.raises(ValueError, match="--auto keeps its cells apart by a nonce"):
        SweepOptions(concurrency=(1,), dataset_name="agent", auto=True, cold_by="flush")
    assert SweepOptions(concurrency=(1,), dataset_name="agent", cold_by="flush", allow_l3_clear=True).cold_by == "flush"
