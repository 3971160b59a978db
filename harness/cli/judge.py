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
@click.option(
    "--profile", "profile_name", default=None, metavar="FILE|NAME",
    help="Decide as a gate with this profile would; default for runs of a gate: their own.",
)  # fmt: skip
@click.option("--report-dir", type=click.Path(path_type=Path, file_okay=False), default=Path("reports"))
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=None, metavar="DIR",
    help="Under a profile: where gate.json, junit.xml and summary.md go; default: beside the report.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON instead of the table.")
def judge(run: Path, profile_name: str | None, report_dir: Path, out: Path | None, as_json: bool) -> int:
    """Judge the checks of RUN again, by this version's rules; nothing is asked.

    An alarm that would ask for fresh prompts stays as it is. Exit codes are those of `check`, or of `gate`.
    """
    with disk_trouble_is_a_message(), RunFolder.open(run) as folder:
        if profile_name is not None or folder.info.command == "gate":
            return _decide(folder, profile_name, report_dir, out, as_json=as_json)
        if out is not None:
            raise click.UsageError("--out needs a --profile: a run of check has no decision of a gate")
        return conclude(folder, judge_run(folder, CHECKS), report_dir, as_json=as_json)


def _decide(run: RunFolder, profile_name: str | None, report_dir: Path, out: Path | None, *, as_json: bool) -> int:
    """The decision of a gate on what the run holds."""
    from harness.cli.gate_output import conclude_gate, judge_under
    from harness.cli.gate_profiles import kept_profile, load_profile

    profile = kept_profile(run) if profile_name is None else load_profile(profile_name)[1]
    return conclude_gate(run, profile, judge_under(run, profile), report_dir, as_json=as_json, out=out)
