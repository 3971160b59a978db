"""The decision of a gate as a table, JSON, JUnit XML, Markdown and on the page."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from harness.checks.verdict import Evidence, Status
from harness.gate.row import GateResult, Kind, Row
from harness.report.gate import gate_json, gate_junit, gate_markdown, gate_table, read_gate, write_gate_files
from harness.store import RunFolder
from tests.store.samples import run_info

ROWS = (
    Row(
        name="eviction", kind=Kind.CHECK, status=Status.FAIL, reason="wrong | <answers>\x00",
        evidence=(
            Evidence(request_ids=("a", "b"), text="0.8 nats"),
            Evidence(request_ids=("c",), text="0.7 nats"),
        ),
    ),
    Row(name="mtp", kind=Kind.CHECK, status=None, reason="crashed"),
    Row(name="soundness", kind=Kind.HARNESS, status=Status.FAIL, reason="late"),
    Row(name="objective o", kind=Kind.OBJECTIVE, status=Status.SUSPECT, reason="slow"),
    Row(name="tools", kind=Kind.CHECK, status=Status.FAIL, reason="schema", waived="waived until 2027-01-01: known"),
    Row(name="tiers", kind=Kind.CHECK, status=Status.NOT_APPLICABLE, reason="none"),
    Row(name="stream", kind=Kind.CHECK, status=Status.PASS, reason="fine"),
)  # fmt: skip
RESULT = GateResult(profile="p", verdict="fail", exit_code=1, rows=ROWS, went_wrong_after="eviction")


def folder(path: Path) -> RunFolder:
    return RunFolder.create(path, run_info())


def test_json_holds_the_decision_and_every_row() -> None:
    found = json.loads(json.dumps(gate_json(RESULT, Path("results/r"))))
    assert (found["verdict"], found["exit_code"]) == ("fail", 1)
    assert [row["status"] for row in found["checks"]] == [
        "fail", "broken", "unsound", "suspect", "fail", "not applicable", "pass"
    ]  # fmt: skip
    assert found["checks"][0]["evidence"][1] == {"name": "eviction#2", "text": "0.7 nats", "requests": ["c"]}
    assert found["checks"][4]["waived"]


def test_the_table_has_one_entry_a_row_and_says_what_it_comes_to() -> None:
    table = gate_table(RESULT)
    assert table.startswith("FAIL ")
    assert "eviction#1: 0.8 nats (+1)" in table
    assert "WAIVED" in table
    assert table.endswith("gate p: FAIL (exit code 1); answers went wrong after eviction")


def test_junit_is_xml_that_counts_failures_errors_and_skipped(tmp_path: Path) -> None:
    with folder(tmp_path) as run:
        suite = ElementTree.fromstring(gate_junit(RESULT, run)).find("testsuite")
    assert suite is not None
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "7", "failures": "2", "errors": "2", "skipped": "2"}
    failure = suite.find("testcase/failure")
    assert failure is not None and failure.text is not None and "0.8 nats [a, b]" in failure.text


def test_markdown_keeps_texts_inside_their_cells(tmp_path: Path) -> None:
    with folder(tmp_path) as run:
        text = gate_markdown(RESULT, run)
    assert "| FAIL | eviction | wrong \\| &lt;answers>" in text
    assert text.count("\n| ") == len(ROWS) + 1


def test_the_page_reads_what_was_written(tmp_path: Path) -> None:
    with folder(tmp_path) as run:
        write_gate_files(RESULT, run, tmp_path / "out")
    view = read_gate(tmp_path / "out")
    assert view is not None
    assert [row.tone for row in view.rows] == ["bad", "bad", "open", "open", "open", "open", "good"]
    assert view.rows[3].verdict is False
    assert read_gate(tmp_path) is None
    (tmp_path / "gate.json").write_text("{")
    assert read_gate(tmp_path) is None
