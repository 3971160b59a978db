"""The matrix of a self-test for people: fault by check, on the terminal and on the page."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import orjson

from harness.checks.matrix import HELD, Matrix, Seen, Trial
from harness.store.codec import NotReadable, Unread, decode

MATRIX = "selftest.json"
BROKEN = "broken"
_SHORT = {"fail": "FAIL", "pass": "pass", "suspect": "suspect", "inconclusive": "?", "not applicable": "n/a"}
_REASON_CHARS = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class CellView:
    """What one check said of one trial; tone: "good" for what it should have said, "bad", or "open"."""

    check: str
    text: str
    tone: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialView:
    """One row; `cells` in the order of the matrix's checks, `requests` of all of them together."""

    name: str
    size: str
    outcome: str
    tone: str
    requests: int
    cells: tuple[CellView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixView:
    """The table with its summary; no trials, no table."""

    checks: tuple[str, ...]
    trials: tuple[TrialView, ...]
    summary: tuple[str, ...]


def read_matrix(run: Path) -> Matrix | None:
    """What a run folder's selftest.json says; None if there is none or it cannot be read."""
    unread: Unread = Counter()
    try:
        return decode(Matrix, orjson.loads((run / MATRIX).read_bytes())["matrix"], unread)
    except (OSError, NotReadable, KeyError, TypeError, orjson.JSONDecodeError):
        return None


def matrix_view(matrix: Matrix) -> MatrixView:
    """Faults first, then the healthy variants."""
    trials = (*matrix.faults, *matrix.healthy)
    return MatrixView(
        checks=matrix.checks,
        trials=tuple(_trial_view(trial, matrix.checks) for trial in trials),
        summary=tuple(_summary(matrix)),
    )


def _trial_view(trial: Trial, checks: tuple[str, ...]) -> TrialView:
    said = {seen.check: seen for seen in trial.seen}
    detected = bool(trial.detected_by)
    if not trial.code:
        outcome, tone = ("accused", "bad") if detected else ("not accused", "good")
    elif detected:
        outcome, tone = f"found by {', '.join(trial.detected_by)}", "good"
    else:
        outcome, tone = "not found", "bad" if trial.size in HELD else "open"
    return TrialView(
        name=trial.name,
        size=trial.size,
        outcome=outcome,
        tone=tone,
        requests=sum(seen.requests for seen in trial.seen),
        cells=tuple(_cell_view(trial, check, said.get(check)) for check in checks),
    )


def _cell_view(trial: Trial, check: str, seen: Seen | None) -> CellView:
    if seen is None:
        return CellView(check=check, text="", tone="open", reason="")
    status = BROKEN if seen.status is None else seen.status.value
    wanted = "fail" if trial.code else "pass"
    tone = "good" if status == wanted else "bad" if status in (BROKEN, "fail") else "open"
    return CellView(check=check, text=_SHORT.get(status, status), tone=tone, reason=seen.reason)


def _summary(matrix: Matrix) -> list[str]:
    """Counts by size, what was missed, and false alarms."""
    sizes = dict.fromkeys(trial.size for trial in matrix.faults)
    lines = [f"{size}: {_found(matrix, size)}" for size in sizes]
    if matrix.missed:
        lines.append(f"not found though they have to be: {', '.join(trial.name for trial in matrix.missed)}")
    counts = Counter(seen.status for trial in matrix.healthy for seen in trial.seen)
    said = ", ".join(f"{count} {'broken' if status is None else status.value}" for status, count in counts.items())
    if matrix.healthy:
        lines.append(f"healthy: {counts.total()} verdicts over {len(matrix.healthy)} variants: {said}")
    return lines


def _found(matrix: Matrix, size: str) -> str:
    trials = [trial for trial in matrix.faults if trial.size == size]
    return f"{sum(bool(trial.detected_by) for trial in trials)} of {len(trials)} found"


def matrix_lines(matrix: Matrix) -> list[str]:
    """The matrix as aligned text: verdicts by check, requests, and the reason of the first verdict that counts."""
    view = matrix_view(matrix)
    headings = ("fault", "size", *view.checks, "requests", "reason")
    rows = [
        (row.name, row.size, *(cell.text for cell in row.cells), f"{row.requests:,}", _reason(trial))
        for row, trial in zip(view.trials, (*matrix.faults, *matrix.healthy), strict=True)
    ]
    widths = [max(len(row[column]) for row in (headings, *rows)) for column in range(len(headings))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in (headings, *rows)]
    return [line.rstrip() for line in (*lines, "", *view.summary)]


def _reason(trial: Trial) -> str:
    """Why it was found; else what the last check said."""
    reasons = [seen.reason for seen in trial.seen if seen.check in trial.detected_by]
    reasons += [seen.reason for seen in trial.seen][-1:]
    text = reasons[0] if reasons else ""
    return text if len(text) <= _REASON_CHARS else text[: _REASON_CHARS - 3] + "..."
