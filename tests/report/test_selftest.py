"""The matrix on the terminal and on the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.checks.matrix import Matrix
from harness.checks.verdict import Status
from harness.report.build import build_report
from harness.report.selftest import MATRIX, matrix_lines, matrix_view, read_matrix
from harness.store import RunFolder, write_derived
from tests.checks.test_matrix import FOUND, SOUND, SUBTLE, SUSPECTED, trial
from tests.store.samples import run_info

MATRIX_OF_ALL = Matrix(faults=(FOUND, SUSPECTED, SUBTLE), healthy=(SOUND,))


def test_a_row_tells_what_became_of_a_fault() -> None:
    view = matrix_view(MATRIX_OF_ALL)
    assert [(row.name, row.tone) for row in view.trials] == [
        ("K01:zero", "good"), ("K05:zero", "bad"), ("K25:zero", "open"), ("bf16", "good"),
    ]  # fmt: skip
    assert [cell.text for cell in view.trials[0].cells] == ["pass", "FAIL"]
    assert view.trials[1].cells[1].text == ""
    assert view.trials[0].requests == 20


def test_the_summary_counts_by_size_and_names_what_was_missed() -> None:
    lines = matrix_view(MATRIX_OF_ALL).summary
    assert "gross: 1 of 1 found" in lines and "medium: 0 of 1 found" in lines
    assert any("K05:zero" in line for line in lines)
    assert "healthy: 2 verdicts over 1 variants: 1 pass, 1 suspect" in lines


def test_an_accused_variant_and_a_broken_check_are_bad() -> None:
    view = matrix_view(Matrix(healthy=(trial("", "healthy", Status.FAIL, None, mode="bf16"),)))
    assert view.trials[0].tone == "bad"
    assert [(cell.text, cell.tone) for cell in view.trials[0].cells] == [("FAIL", "bad"), ("broken", "bad")]


def test_the_text_table_has_a_line_for_every_trial() -> None:
    lines = matrix_lines(MATRIX_OF_ALL)
    assert lines[0].split()[:2] == ["fault", "size"]
    assert sum(line.startswith(("K01", "K05", "K25", "bf16")) for line in lines) == 4
    assert matrix_lines(Matrix())[0].startswith("fault")


def test_the_page_of_a_run_shows_its_matrix(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, replace(run_info(), command="selftest")) as run:
        write_derived(run, MATRIX, {"matrix": MATRIX_OF_ALL})
    assert read_matrix(run.path) == MATRIX_OF_ALL
    files = build_report([run.path], tmp_path / "report")
    page, text = files.index_html.read_text(), files.index_md.read_text()
    assert "K05:zero" in page and 'class="bad"><details><summary>not found' in page
    assert "| K01:zero | gross | pass | FAIL |" in text


def test_a_run_without_a_matrix_has_none(tmp_path: Path) -> None:
    assert read_matrix(tmp_path) is None
    (tmp_path / MATRIX).write_text("{}")
    assert read_matrix(tmp_path) is None
