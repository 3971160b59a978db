"""How `gate`, and `judge` under a profile, end: the decision, its files, the report, the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import orjson

from harness.checks.judgement import Judgement
from harness.checks.registry import CHECKS
from harness.checks.verdict import Status
from harness.cli.check_run import CLOCK
from harness.drive.check_history import load_capabilities, load_history, rounds_of
from harness.drive.judging import ENDED_BEFORE, guarded, judge_again, not_run, write_verdicts
from harness.drive.soundness import judge_soundness
from harness.gate.decision import decide
from harness.gate.objectives import judge_objectives
from harness.gate.order import LAST, PULSE, in_order
from harness.gate.profile import Profile
from harness.gate.pulse import judge_pulse
from harness.gate.row import GateResult
from harness.store import RunFolder, StoreError, write_derived
from workloads.pulse import NAME as PULSE_CELL


def decide_on(run: RunFolder, profile: Profile, judgements: Sequence[Judgement]) -> GateResult:
    """The decision on what a run holds; judgements: of its checks and its pulse, and of the harness if at the end."""
    from harness.report.derive import load_run

    data = load_run(run, profile.percentiles)
    cut = {name: each.info.ended_by for name, each in data.histories.items() if each.info and each.info.ended_by}
    earlier = run.info.options.get("baseline")
    baseline = None
    if isinstance(earlier, str) and profile.needs_baseline:
        with RunFolder.open(Path(earlier)) as before:
            baseline = load_run(before, profile.percentiles).summary.cells
    rows = judge_objectives(profile, data.summary.cells, baseline, cut)
    return decide(profile, judgements, load_capabilities(run), rows, CLOCK.utc_now().date())


def stopped_by(run: RunFolder, profile: Profile, judgements: Sequence[Judgement]) -> str | None:
    """What failed of what was asked, where the first failure ends it all; None otherwise."""
    if not profile.fail_fast:
        return None
    rows = decide_on(run, profile, judgements).rows
    return next((row.name for row in rows if row.status is Status.FAIL and row.waived is None), None)


def judge_under(run: RunFolder, profile: Profile) -> tuple[Judgement, ...]:
    """Judge what a profile asks for from the records of a run; nothing is asked.

    StoreError if the run holds nothing of it.
    """
    asked = set(run.cells())
    names = [*in_order(each.name for each in profile.checks), *(name for name in LAST if profile.entry(name))]
    if not asked:
        raise StoreError(f"{run.path} holds no cell: nothing was asked")
    judgements = [guarded(run, name, judge_again(run, CHECKS[name])) for name in names]
    if profile.heartbeat and rounds_of(run, PULSE_CELL):
        judgements.append(guarded(run, PULSE, lambda: judge_pulse(load_history(run, PULSE_CELL))))
    return _naming_the_stop(run, profile, judgements)


def _naming_the_stop(run: RunFolder, profile: Profile, judgements: Sequence[Judgement]) -> tuple[Judgement, ...]:
    """Checks that a failure before them kept from being asked say so, as the gate did."""
    never = {name: not_run(check, ENDED_BEFORE) for name, check in CHECKS.items()}
    unasked = {each.check for each in judgements if each.verdict == never.get(each.check)}
    stopped = stopped_by(run, profile, [each for each in judgements if each.check not in unasked])
    if stopped is None:
        return tuple(judgements)
    return tuple(not_asked(each.check, stopped) if each.check in unasked else each for each in judgements)


def not_asked(name: str, stopped: str) -> Judgement:
    """The judgement of a check that comes after the failure that stopped a gate."""
    return Judgement(check=name, verdict=not_run(CHECKS[name], f"--fail-fast stopped after {stopped}"))


def conclude_gate(
    run: RunFolder,
    profile: Profile,
    judgements: Sequence[Judgement],
    report_dir: Path,
    *,
    as_json: bool,
    out: Path | None = None,
) -> int:
    """Judge the harness too, decide, write the files and the report, print the table; the exit code.

    Without --json the run folder is the last line.
    """
    from harness.report.build import build_report
    from harness.report.gate import gate_json, gate_table, write_gate_files

    judgements = (*judgements, judge_soundness(run))
    write_verdicts(run, judgements)
    result = decide_on(run, profile, judgements)
    write_derived(run, "gate.json", gate_json(result, run.path))
    folder = report_dir / run.path.resolve().name
    files = build_report([run.path], folder)
    write_gate_files(result, run, out if out is not None else folder)
    click.echo(f"report: {files.index_html}", err=True)
    if as_json:
        click.echo(orjson.dumps(gate_json(result, run.path), option=orjson.OPT_INDENT_2).decode())
    else:
        click.echo(gate_table(result))
        click.echo(str(run.path))
    return result.exit_code
