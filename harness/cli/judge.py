"""`ling-bench judge`: verdicts from the records of a run alone."""

from __future__ import annotations

from pathlib import Path

import click

from harness.checks.registry import CHECKS
from harness.cli.disk import disk_trouble_is_a_message
from harness.cli.verdict_output import conclude
from harness.drive.judging import judge_run
from harness.store import RunFolder


@click.command("judge")
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--report-dir", type=click.Path(path_type=Path, file_okay=False), default=Path("reports"))
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON instead of the table.")
def judge(run: Path, report_dir: Path, as_json: bool) -> int:
    """Judge the checks of RUN again, by this version's rules; nothing is asked.

    An alarm that would ask for fresh prompts stays as it is. Exit codes are those of `check`.
    """
    with disk_trouble_is_a_message(), RunFolder.open(run) as folder:
        return conclude(folder, judge_run(folder, CHECKS), report_dir, as_json=as_json)
