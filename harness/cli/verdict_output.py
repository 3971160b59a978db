"""How `check` and `judge` end: table or JSON on stdout, the report, the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import orjson

from harness.checks.judgement import Judgement, statuses
from harness.checks.verdict import Status
from harness.cli.exits import Exit
from harness.store import RunFolder

_UNDECIDED = {Status.SUSPECT, Status.INCONCLUSIVE}


def conclude(run: RunFolder, judgements: Sequence[Judgement], report_dir: Path, *, as_json: bool) -> int:
    """Print the verdicts and draw the report; the run folder is the last line of stdout unless it is JSON."""
    from harness.report.build import build_report
    from harness.report.verdicts import verdict_table

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
    """1 if anything failed, else 4 if a check broke, else 3 if anything is undecided, else 0."""
    found = set(statuses(judgements))
    if Status.FAIL in found:
        return Exit.FAIL
    if any(each.verdict is None for each in judgements):
        return Exit.UNSOUND
    return Exit.UNDECIDED if found & _UNDECIDED else Exit.PASS
