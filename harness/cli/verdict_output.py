"""How `check` and `judge` end: table or JSON on stdout, the report, the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import orjson

from harness.checks.judgement import Judgement, statuses
from harness.checks.registry import CHECKS
from harness.checks.soundness import LATE_CELLS, LOSSY_CELLS
from harness.checks.soundness import NAME as SOUNDNESS
from harness.checks.verdict import Status
from harness.cli.exits import Exit
from harness.drive.judging import write_verdicts
from harness.drive.soundness import judge_soundness
from harness.store import RunFolder
from workloads.plan import Json

_UNDECIDED = {Status.SUSPECT, Status.INCONCLUSIVE}


def conclude(run: RunFolder, judgements: Sequence[Judgement], report_dir: Path, *, as_json: bool) -> int:
    """Judge the harness too, print the verdicts and draw the report; without --json the run folder is the last line."""
    from harness.report.build import build_report
    from harness.report.verdicts import verdict_table

    judgements = (*judgements, judge_soundness(run))
    write_verdicts(run, judgements)
    files = build_report([run.path], report_dir / run.path.resolve().name)
    click.echo(f"report: {files.index_html}", err=True)
    if as_json:
        content = {"run": str(run.path), "exit_code": exit_code(judgements), "checks": judgements}
        click.echo(orjson.dumps(content, default=dict, option=orjson.OPT_INDENT_2).decode())
    else:
        click.echo(verdict_table(judgements))
        click.echo(str(run.path))
    return exit_code(judgements)


def exit_code(judgements: Sequence[Judgement]) -> Exit:
    """1 if a check failed, else 4 if one broke or the harness did not keep up, else 3 if any is undecided, else 0."""
    found = set(statuses(each for each in judgements if each.check != SOUNDNESS))
    if Status.FAIL in found:
        return Exit.FAIL
    if _spoilt(judgements) or any(each.verdict is None for each in judgements):
        return Exit.UNSOUND
    return Exit.UNDECIDED if found & _UNDECIDED else Exit.PASS


def _spoilt(judgements: Sequence[Judgement]) -> bool:
    """Whether records were lost, or times are wrong in a round of a check that listens to them."""
    details = [each.verdict.details for each in judgements if each.check == SOUNDNESS and each.verdict is not None]
    late = [cell for found in details for cell in _names(found.get(LATE_CELLS))]
    lossy = [cell for found in details for cell in _names(found.get(LOSSY_CELLS))]
    timed = {name for name, check in CHECKS.items() if check.timed}
    return bool(lossy) or any(cell.rpartition("-r")[0] in timed for cell in late)


def _names(value: Json) -> list[str]:
    return [str(each) for each in value] if isinstance(value, Sequence) and not isinstance(value, str) else []


def unsound(judgements: Sequence[Judgement]) -> bool:
    """Whether the harness's own conduct spoils the figures."""
    return any(
        each.check == SOUNDNESS and each.verdict is not None and each.verdict.status is Status.FAIL
        for each in judgements
    )
