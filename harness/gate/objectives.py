"""What the cells of an objective reached, held against its bounds: absolute, or factors of an earlier run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.checks.verdict import Evidence, Status, worst
from harness.gate.profile import Objective, Profile, Slo
from harness.gate.row import Kind, Row
from harness.metrics import CellSummary
from workloads.plan import Json

Finding = tuple[Status, str, Mapping[str, Json]]


def cell_of(objective: Objective, cell: str) -> str:
    """What a cell of an objective is called in the run."""
    return f"{prefix_of(objective.name)}{cell}"


def prefix_of(name: str) -> str:
    """How the names of an objective's cells begin."""
    return f"objective-{name}-"


def is_objective_cell(cell: str) -> bool:
    """Whether a cell of a gate's run measures an objective."""
    return cell.startswith("objective-")


def judge_objectives(
    profile: Profile,
    cells: Sequence[CellSummary],
    baseline: Sequence[CellSummary] | None,
    ended_by: Mapping[str, str] | None = None,
) -> tuple[Row, ...]:
    """A row for each objective.

    baseline: the cells of an earlier run, None without one. ended_by: cells that a limit ended before their plan did.
    """
    cut = ended_by if ended_by is not None else {}
    return tuple(_row(each, cells, baseline, cut) for each in profile.objectives)


def _row(
    objective: Objective,
    cells: Sequence[CellSummary],
    baseline: Sequence[CellSummary] | None,
    ended_by: Mapping[str, str],
) -> Row:
    begun = [cell for cell in cells if cell.cell.startswith(prefix_of(objective.name))]
    own = [cell for cell in begun if cell.finished]
    findings = [
        finding for cell in own for finding in _cell(objective, cell, _same(cell, baseline), baseline is not None)
    ]
    findings += [
        (
            Status.INCONCLUSIVE,
            f"{cell.cell}: the run's limit of {ended_by[cell.cell]} cut it short",
            {"cell": cell.cell},
        )
        for cell in own
        if _cut(objective, ended_by.get(cell.cell))
    ]
    name = f"objective {objective.name}"
    if not findings:
        return Row(
            name=name,
            kind=Kind.OBJECTIVE,
            status=Status.INCONCLUSIVE,
            reason="not measured: no cell of it came to its end" if begun else "not run: the gate ended before it",
        )
    status = worst([status for status, _, _ in findings])
    gravest = [words for found, words, _ in findings if found is status]
    return Row(
        name=name,
        kind=Kind.OBJECTIVE,
        status=status,
        reason="; ".join(gravest[:3]) + (f"; and {len(gravest) - 3} more" if len(gravest) > 3 else ""),
        evidence=tuple(Evidence(request_ids=(), text=words, table=table) for _, words, table in findings),
    )


def _cut(objective: Objective, ended_by: str | None) -> bool:
    """Whether a limit of the run ended a cell, not a duration of its own."""
    return ended_by is not None and not (ended_by == "duration" and "duration_s" in objective.sweep)


def _same(cell: CellSummary, baseline: Sequence[CellSummary] | None) -> CellSummary | None:
    return next((each for each in baseline or () if each.cell == cell.cell and each.finished), None)


def _cell(objective: Objective, cell: CellSummary, before: CellSummary | None, compared: bool) -> Iterator[Finding]:
    completed, failed = cell.value("completed"), cell.value("failed")
    where = cell.cell.removeprefix(prefix_of(objective.name))
    if not completed:
        yield Status.FAIL, f"{where}: no request was answered", {"cell": cell.cell}
        return
    share = 0.0 if failed is None else failed / (completed + failed)
    if share > objective.max_failed_share:
        words = f"{where}: {share:.1%} of the requests failed, {objective.max_failed_share:.1%} are allowed"
        yield Status.FAIL, words, {"cell": cell.cell, "failed_share": share}
    for slo in objective.slos:
        yield _bound(slo, cell, where, before, compared)


def _bound(slo: Slo, cell: CellSummary, where: str, before: CellSummary | None, compared: bool) -> Finding:
    value, earlier = cell.value(slo.metric), None if before is None else before.value(slo.metric)
    table: dict[str, Json] = {"cell": cell.cell, "metric": slo.metric, "value": value, "baseline": earlier}
    if value is None:
        return Status.INCONCLUSIVE, f"{where}: {slo.metric} could not be had", table
    says = f"{where}: {slo.metric} is {value:.4g}"
    low, high = _ends(cell, slo.metric, value)
    found = _held(says, value, low, high, slo.min, slo.max, "")
    if found is None and slo.compares and not earlier:
        why = "the baseline has no such cell, or no such figure" if compared else "name an earlier run with --baseline"
        return Status.INCONCLUSIVE, f"{says}; {why}", table
    if found is None and slo.compares and before is not None and earlier:
        earlier_low, earlier_high = _ends(before, slo.metric, earlier)
        least = None if slo.min_of_baseline is None else slo.min_of_baseline * earlier
        most = None if slo.max_of_baseline is None else slo.max_of_baseline * earlier
        widest_low, widest_high = low * earlier / earlier_high, high * earlier / max(earlier_low, 1e-12)
        found = _held(says, value, widest_low, widest_high, least, most, f" (the baseline has {earlier:.4g})")
    return (*(found if found is not None else (Status.PASS, says)), table)


def _held(
    says: str, value: float, low: float, high: float, least: float | None, most: float | None, note: str
) -> tuple[Status, str] | None:
    """What is wrong with a value whose true one lies between low and high; None if it is within its bounds."""
    if least is not None and value < least:
        return _missed(high < least, f"{says}, at least {least:.4g}{note}")
    if most is not None and value > most:
        return _missed(low > most, f"{says}, at most {most:.4g}{note}")
    return None


def _missed(surely: bool, words: str) -> tuple[Status, str]:
    if surely:
        return Status.FAIL, f"{words} is asked for"
    return Status.SUSPECT, f"{words} is asked for; its 95% interval reaches that, so ask for more requests"


def _ends(cell: CellSummary, metric: str, value: float) -> tuple[float, float]:
    """The 95% interval of a metric; the value twice where there is none."""
    low, high = cell.value(f"{metric}_low"), cell.value(f"{metric}_high")
    return (value, value) if low is None or high is None else (low, high)
