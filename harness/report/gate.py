"""The decision of a gate for people and for CI: a table, JSON, JUnit XML, Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from xml.etree import ElementTree

import orjson

from harness.gate.row import GateResult, Kind, Row
from harness.report.verdicts import WIDTH
from harness.store import RunFolder
from workloads.plan import Json

GATE_FILE = "gate.json"
# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PASSING = {"pass", "not applicable"}


def gate_json(result: GateResult, run: Path) -> dict[str, Json]:
    """The content of gate.json."""
    return {
        "verdict": result.verdict,
        "exit_code": result.exit_code,
        "profile": result.profile,
        "run": str(run),
        "went_wrong_after": result.went_wrong_after,
        "checks": [_row_json(row) for row in result.rows],
    }


def _row_json(row: Row) -> dict[str, Json]:
    return {
        "name": row.name,
        "status": row.shown_status,
        "reason": row.reason,
        "evidence": [
            {"name": f"{row.name}#{index}", "text": each.text, "requests": list(each.request_ids)}
            for index, each in enumerate(row.evidence, 1)
        ],
        "kind": row.kind.value,
        "waived": row.waived,
    }


def _first_evidence(row: Row) -> str:
    """The first finding and how many more there are; empty for a row without trouble, or whose reason says it."""
    if not row.evidence or row.shown_status in _PASSING or row.evidence[0].text in row.reason:
        return ""
    more = f" (+{len(row.evidence) - 1})" if len(row.evidence) > 1 else ""
    return f"{row.name}#1: {row.evidence[0].text}{more}"


def gate_table(result: GateResult) -> str:
    """The table for a terminal, worst first, and one line that says what it comes to."""
    width = max((len(row.name) for row in result.rows), default=0)
    lines = [line for row in result.rows for line in _lines(row, width)]
    return "\n".join([*lines, "", summary_line(result)])


def summary_line(result: GateResult) -> str:
    """The decision in one line."""
    after = f"; answers went wrong after {result.went_wrong_after}" if result.went_wrong_after is not None else ""
    return f"gate {result.profile}: {result.verdict.upper()} (exit code {result.exit_code}){after}"


def _lines(row: Row, width: int) -> list[str]:
    status = "WAIVED" if row.waived is not None else row.shown_status.upper()
    head = f"{status:<14}  {row.name:<{width}}  "
    words = [part for part in (row.waived, row.reason, _first_evidence(row)) if part]
    wrapped = wrap("; ".join(words), max(40, WIDTH - len(head)), subsequent_indent="  ")
    return [(head if index == 0 else " " * len(head)) + line for index, line in enumerate(wrapped)]


def gate_markdown(result: GateResult, run: RunFolder) -> str:
    """A summary for the page of a CI job."""
    target = run.info.target
    lines = [
        f"## ling-bench gate: {result.verdict.upper()}",
        "",
        f"Profile `{result.profile}` against **{_cell(target.base_url)}**, model **{_cell(target.model)}**;"
        f" exit code {result.exit_code}; run `{run.info.run_id}`.",
        "",
        *([f"Answers went wrong after **{_cell(result.went_wrong_after)}**.", ""] if result.went_wrong_after else []),
        "| verdict | what | why | evidence |",
        "|---|---|---|---|",
    ]
    for row in result.rows:
        status = "WAIVED" if row.waived is not None else row.shown_status.upper()
        reason = row.reason if row.waived is None else f"{row.waived}; {row.reason}"
        lines.append(f"| {status} | {_cell(row.name)} | {_cell(reason)} | {_cell(_first_evidence(row))} |")
    return "\n".join([*lines, ""])


def _cell(text: str | None) -> str:
    """Text that cannot break out of a cell of a Markdown table."""
    plain = " ".join((text if text is not None else "").split())
    return plain.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def gate_junit(result: GateResult, run: RunFolder) -> bytes:
    """JUnit XML: a failed row is a failure, a broken or unsound one an error, an undecided one a failure of its own
    type; waived and not applicable ones are skipped.
    """
    cases = [_case(row) for row in result.rows]
    suite = ElementTree.Element(
        "testsuite",
        name=f"ling-bench gate {result.profile}",
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors=str(sum(case.find("error") is not None for case in cases)),
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
        timestamp=run.info.started_utc,
    )
    suite.extend(cases)
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _case(row: Row) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=f"ling-bench.{row.kind.value}", name=_xml(row.name))
    said = _xml(row.reason)
    if row.waived is not None:
        ElementTree.SubElement(case, "skipped", message=_xml(row.waived))
    elif row.shown_status == "not applicable":
        ElementTree.SubElement(case, "skipped", message=said)
    elif row.status is None or row.shown_status == "unsound":
        ElementTree.SubElement(case, "error", message=said, type=row.shown_status)
    elif row.shown_status != "pass" and row.kind is not Kind.HARNESS:
        failure = ElementTree.SubElement(case, "failure", message=said, type=row.shown_status)
        failure.text = "\n".join(_xml(f"{each.text} [{', '.join(each.request_ids)}]") for each in row.evidence)
    return case


def _xml(text: str) -> str:
    return _NOT_XML.sub("?", text)


def write_gate_files(result: GateResult, run: RunFolder, folder: Path) -> None:
    """gate.json, junit.xml and summary.md into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    content = orjson.dumps(gate_json(result, run.path), option=orjson.OPT_INDENT_2)
    (folder / GATE_FILE).write_bytes(content + b"\n")
    (folder / "junit.xml").write_bytes(gate_junit(result, run))
    (folder / "summary.md").write_text(gate_markdown(result, run), encoding="utf-8")


# -- for the report page


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRowView:
    """`tone` is "good", "bad" or "open"; verdict: whether the page has a section of that check to point to."""

    name: str
    status: str
    tone: str
    reason: str
    findings: tuple[str, ...]
    verdict: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GateView:
    """The gate's table as the page shows it."""

    profile: str
    verdict: str
    exit_code: int
    went_wrong_after: str | None
    rows: tuple[GateRowView, ...]


def read_gate(run: Path) -> GateView | None:
    """What a run folder's gate.json says; None if there is none or it cannot be read."""
    try:
        content = orjson.loads((run / GATE_FILE).read_bytes())
        return GateView(
            profile=str(content["profile"]),
            verdict=str(content["verdict"]),
            exit_code=int(content["exit_code"]),
            went_wrong_after=content.get("went_wrong_after"),
            rows=tuple(_view(row) for row in content["checks"]),
        )
    except (OSError, KeyError, TypeError, ValueError):
        return None


def _view(row: Mapping[str, Json]) -> GateRowView:
    status, waived = str(row["status"]), row.get("waived")
    findings = row["evidence"]
    own = row.get("kind") in (Kind.CHECK.value, Kind.HARNESS.value)
    return GateRowView(
        name=str(row["name"]),
        status=status if waived is None else "waived",
        tone="open" if waived is not None else {"pass": "good", "fail": "bad", "broken": "bad"}.get(status, "open"),
        reason=str(row["reason"]) if waived is None else f"{waived}; {row['reason']}",
        findings=tuple(
            str(each["text"]) for each in (findings if isinstance(findings, list) else []) if isinstance(each, dict)
        ),
        verdict=own,
    )
