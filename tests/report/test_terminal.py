from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.report.derive import derive
from harness.report.terminal import WIDTH, sweep_table
from harness.store import RunFolder
from tests.report.synthetic import write_run
from tests.store.samples import run_info


def lines_of(path: Path) -> list[str]:
    return sweep_table(derive(RunFolder.open(path))).splitlines()


def test_the_target_comes_first_and_every_level_has_its_row(tmp_path: Path) -> None:
    lines = lines_of(write_run(tmp_path))
    assert lines[0] == "target  http://127.0.0.1:8000 (option), model tiny"
    for level in ("1", "8", "32"):
        assert sum(line.split()[:1] == [level] for line in lines) == 5


def test_goodput_is_shown_only_when_it_was_asked_for(tmp_path: Path) -> None:
    without = replace(run_info(), goodput={})
    assert any("good req/s" in line for line in lines_of(write_run(tmp_path / "a")))
    assert not any("good req/s" in line for line in lines_of(write_run(tmp_path / "b", run=without)))


def test_lines_fit_the_terminal_however_many_percentiles(tmp_path: Path) -> None:
    info = replace(run_info(), options={"metric_percentiles": [1, 5, 25, 50, 75, 90, 95, 99, 99.9]})
    lines = lines_of(write_run(tmp_path, run=info))
    assert max(len(line) for line in lines) <= WIDTH
    assert any("p99.9" in line for line in lines)


def test_failures_and_warnings_follow_the_tables(tmp_path: Path) -> None:
    lines = lines_of(write_run(tmp_path, unfinished=[32]))
    assert "failed at 1: 2 x http_status 503: message of f0" in lines
    assert "warning at 32*: unfinished: the figures cover what was recorded" in lines
    assert lines[-1] == "* this cell is unfinished"


def test_nothing_completed_shows_dashes(tmp_path: Path) -> None:
    lines = lines_of(write_run(tmp_path, levels=[4], requests=0, failures=3))
    row = next(line.split() for line in lines if line.split()[:1] == ["4"])
    assert row[1:3] == ["0", "3"]
    assert "-" in row


def test_a_mix_has_a_row_for_each_class_of_each_level(tmp_path: Path) -> None:
    lines = lines_of(write_run(tmp_path, classes=("agent", "chat")))
    assert max(len(line) for line in lines) <= WIDTH
    rows = [line.split() for line in lines if line.split()[1:2] in (["agent"], ["chat"])]
    assert [row[:2] for row in rows[:4]] == [["1", "agent"], ["1", "chat"], ["8", "agent"], ["8", "chat"]]
    assert [row[2] for row in rows[:2]] == ["48", "48"]
