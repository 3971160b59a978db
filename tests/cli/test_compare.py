"""`ling-bench compare`: refusals, exit codes against a baseline, published sides, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from harness.cli.compare import compare
from harness.cli.exits import Exit
from tests.report.compare.build import write_side


def run_compare(*arguments: str | Path) -> int:
    code = compare.main(args=[str(each) for each in arguments], standalone_mode=False)
    assert isinstance(code, int)
    return code


def two(tmp_path: Path, **other: object) -> tuple[Path, Path]:
    return write_side(tmp_path, "aaaaaa"), write_side(tmp_path, "bbbbbb", **other)  # type: ignore[arg-type]


def test_the_page_is_the_last_line_of_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = two(tmp_path, tpot_ms=lambda context: 13.0)
    assert run_compare(one, other, "--report-dir", tmp_path / "out", "--metric", "median_tpot_ms") == Exit.PASS
    lines = capsys.readouterr().out.splitlines()
    assert Path(lines[-1]).is_file()
    assert "In median TPOT, at the one point measured: A (tiny) is ahead at 1; the ratio B/A is 1.3" in " ".join(lines)


def test_unlike_runs_are_refused_with_what_differs(tmp_path: Path) -> None:
    one, other = two(tmp_path, digest="cd", options={"cache": "warm"})
    with pytest.raises(click.UsageError, match="--anyway") as refused:
        run_compare(one, other, "--report-dir", tmp_path / "out")
    assert "digest ab against cd" in refused.value.message
    assert "cache mode: A cold, B warm" in refused.value.message
    assert not (tmp_path / "out").exists()


def test_anyway_compares_unlike_runs_and_prints_how_they_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = two(tmp_path, digest="cd")
    assert run_compare(one, other, "--anyway", "--report-dir", tmp_path / "out") == Exit.PASS
    assert "warning: Unlike, compared anyway: plan at 2,048 tokens" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("tpot_ms", "noise", "sessions", "code"),
    [(13.0, 0.1, 24, Exit.FAIL), (10.0, 0.02, 24, Exit.PASS), (10.0, 0.6, 8, Exit.UNDECIDED)],
    ids=["worse", "the same", "too noisy"],
)
def test_exit_codes_against_a_baseline(tmp_path: Path, tpot_ms: float, noise: float, sessions: int, code: Exit) -> None:
    one = write_side(tmp_path, "aaaaaa", noise=noise, sessions=sessions)
    other = write_side(tmp_path, "bbbbbb", noise=noise, sessions=sessions, tpot_ms=lambda context: tpot_ms)
    limits = ("--max-regression", "median_tpot_ms=5%", "--metric", "median_tpot_ms")
    assert run_compare(other, "--baseline", one, *limits, "--report-dir", tmp_path / "out") == code


def test_json_holds_ratios_cost_and_the_judgement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = two(tmp_path, tpot_ms=lambda context: 13.0)
    code = run_compare(
        other, "--baseline", one, "--max-regression", "median_tpot_ms=5%", "--price-per-hour", "A=3.6",
        "--price-per-hour", "7.2", "--json", "--report-dir", tmp_path / "out",
    )  # fmt: skip
    document = json.loads(capsys.readouterr().out)
    assert code == Exit.FAIL
    assert document["regression"]["outcome"] == "worse"
    [ratio] = [each for each in document["ratios"] if each["figure"] == "median_tpot_ms"]
    assert ratio["low"] < 1.3 < ratio["high"]
    [cheap, dear] = document["cost"]
    throughput = {each["figure"]: each for each in document["ratios"]}["output_throughput"]
    assert cheap["per_million_output_tokens"] == pytest.approx(3.6 / 3_600 / throughput["first_value"] * 1e6)
    assert dear["side"] == "B"


def test_published_figures_stand_beside_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = two(tmp_path)
    assert run_compare(one, other, "ling-3.1-flash-8xh200", "--report-dir", tmp_path / "out") == Exit.PASS
    told = " ".join(capsys.readouterr().out.split())
    assert "C published figures of Ling-3.1-flash (FP8) on 8 x H200, not measured here" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["RUN"], "two runs"),
        (["RUN", "no-such-run"], "ling-3.1-flash-8xh200"),
        (["ling-3.1-flash-8xh200", "RUN"], "cannot come first"),
        (["RUN", "RUN", "--max-regression", "median_tpot_ms=5%"], "--baseline"),
        (["RUN", "--baseline", "RUN", "--max-regression", "median_tpot_ms"], "median_tpot_ms=5%"),
        (["RUN", "RUN", "--metric", "speed"], "speed"),
        (["RUN", "RUN", "--price-per-hour", "dear"], "dear"),
        (["RUN", "RUN", "--price-per-hour", "A=1", "--price-per-hour", "A=2"], "twice"),
        (["RUN", "RUN", "--preset", "A=no-such-model"], "no-such-model"),
    ],
)
def test_wrong_usage_is_named(arguments: list[str], message: str, tmp_path: Path) -> None:
    path = write_side(tmp_path, "aaaaaa", sessions=8, rounds=1)
    typed = [str(path) if each == "RUN" else each for each in arguments]
    with pytest.raises(click.UsageError, match=message):
        run_compare(*typed, "--report-dir", tmp_path / "out")
