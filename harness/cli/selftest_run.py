"""What `selftest` does: each fault in an engine of its own, asked over HTTP by the checks that should see it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import click
import orjson

from harness.checks.judgement import Judgement
from harness.checks.matrix import Matrix, Seen, Trial
from harness.checks.registry import CHECKS
from harness.cli.check_options import CheckOptions
from harness.cli.check_run import CLOCK, CheckRequest, carry_out
from harness.cli.disk import disk_trouble_is_a_message
from harness.cli.embedded import embedded_engine
from harness.cli.exits import Exit
from harness.cli.provenance import clock_facts, host_facts, versions
from harness.cli.selftest_plan import Planted
from harness.cli.target import EMBEDDED, Access, EndpointChoice
from harness.cli.trials import side_by_side
from harness.drive.check_history import rounds_of
from harness.drive.soundness import judge_soundness
from harness.endpoint.url import normalise_base_url
from harness.records import SCHEMA_VERSION, RunInfo, TargetInfo
from harness.report.selftest import MATRIX, matrix_lines
from harness.store import RunFolder, new_run_id, read_cell, write_derived

MODEL = "ling-mini"
TRIALS = "trials"
# The engine does report cached tokens, and counts no draft behind the end of an answer: faults of these are to be seen.
REPORTED = ("cached-report", "cached-tokens", "exact-drafts")


@dataclass(frozen=True, slots=True, kw_only=True)
class SelftestRequest:
    """A checked command line; budget: of every check; jobs: trials at once."""

    faults: tuple[Planted, ...]
    healthy: tuple[Planted, ...]
    budget: str
    seed: int
    result_dir: Path
    report_dir: Path
    as_json: bool
    argv: tuple[str, ...]
    jobs: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One trial, as it is handed to a process. folder: of the whole run."""

    planted: Planted
    budget: str
    seed: int
    folder: Path


async def run_selftest(request: SelftestRequest) -> int:
    """Healthy variants first, then the faults; the matrix is written after each, so that an interrupted run has it."""
    with disk_trouble_is_a_message(), RunFolder.create(request.result_dir, _run_info(request)) as run:
        everything = (*request.healthy, *request.faults)
        tasks = [Task(planted=each, budget=request.budget, seed=request.seed, folder=run.path) for each in everything]
        matrix, done = Matrix(), dict[int, Trial]()
        async with aclosing(side_by_side(tried, tasks, request.jobs)) as ended:
            async for each in ended:
                trial, seconds = each.result
                done[each.place] = trial
                click.echo(f"[{len(done)}/{len(tasks)}] {_in_words(trial)}, {seconds:.0f} s", err=True)
                matrix = _matrix([done[place] for place in sorted(done)])
                write_derived(run, MATRIX, {"matrix": matrix})
        return _conclude(request, run, matrix)


def _matrix(trials: Sequence[Trial]) -> Matrix:
    return Matrix(
        faults=tuple(trial for trial in trials if trial.code),
        healthy=tuple(trial for trial in trials if not trial.code),
    )


def _run_info(request: SelftestRequest) -> RunInfo:
    now = CLOCK.utc_now()
    return RunInfo(
        schema_version=SCHEMA_VERSION,
        run_id=new_run_id(now, "selftest", MODEL, secrets.token_hex(3)),
        command="selftest",
        argv=request.argv,
        started_utc=now.isoformat(),
        clock=clock_facts(CLOCK),
        versions=versions(),
        host=host_facts(),
        target=TargetInfo(base_url="one engine a trial", chosen_by=EMBEDDED, model=MODEL, endpoint_type="auto"),
        seed=request.seed,
        options={"budget": request.budget, "jobs": request.jobs, "trials": len(request.faults) + len(request.healthy)},
    )


async def tried(task: Task) -> tuple[Trial, float]:
    """One engine, asked over HTTP alone; and how long that took, in seconds."""
    began_s = time.monotonic()
    trial = await _asked(task)
    return trial, time.monotonic() - began_s


def _in_words(trial: Trial) -> str:
    said = ", ".join(f"{seen.check} {_word(seen)}" for seen in trial.seen)
    return f"{trial.name} ({trial.size}): {said}"


def _word(seen: Seen) -> str:
    return "BROKEN" if seen.status is None else seen.status.value.upper()


async def _asked(task: Task) -> Trial:
    planted = task.planted
    earlier = None
    if planted.baseline is not None:
        repeating = tuple(name for name in planted.checks if CHECKS[name].repeats_baseline)
        before, _ = await _carried_out(task, repeating, planted.baseline, None)
        earlier = str(before.path.resolve())
    answered, judgements = await _carried_out(task, planted.checks, planted.engine, earlier)
    return Trial(
        code=planted.code,
        mode=planted.mode,
        size=planted.size,
        engine=planted.engine,
        seen=tuple(_seen(answered, judgement) for judgement in judgements),
        run=str(answered.path.relative_to(task.folder)),
    )


async def _carried_out(
    task: Task, checks: tuple[str, ...], engine: tuple[str, ...], baseline: str | None
) -> tuple[RunFolder, tuple[Judgement, ...]]:
    """Checks, asked of an engine of their own."""
    planted = task.planted
    asked = CheckRequest(
        options=CheckOptions(
            checks=checks,
            endpoint_type=planted.route,
            budget=task.budget,
            exclusive_server=True,
            require=REPORTED if planted.code else (),
            baseline=baseline,
            seed=task.seed,
        ),
        base_url=None,
        api_key=None,
        headers=(),
        result_dir=task.folder / TRIALS,
        report_dir=task.folder,
        dry_run=False,
        as_json=False,
        argv=("check", *checks),
        environment={},
    )
    with embedded_engine(engine) as url:
        choice = EndpointChoice(base=normalise_base_url(url), chosen_by=EMBEDDED)
        return await carry_out(asked, choice, Access(), silent=True)


def _seen(run: RunFolder, judgement: Judgement) -> Seen:
    verdict = judgement.verdict
    return Seen(
        check=judgement.check,
        status=None if verdict is None else verdict.status,
        reason=f"traceback in {judgement.traceback}" if verdict is None else verdict.reason,
        requests=sum(len(read_cell(run, cell).records) for cell in rounds_of(run, judgement.check)),
    )


def _conclude(request: SelftestRequest, run: RunFolder, matrix: Matrix) -> int:
    """Print the matrix, draw the report; the run folder is the last line of stdout unless it is JSON."""
    from harness.report.build import build_report

    files = build_report([run.path], request.report_dir / run.info.run_id)
    click.echo(f"report: {files.index_html}", err=True)
    _tell_of_unsound(run, matrix)
    if request.as_json:
        click.echo(orjson.dumps({**matrix.as_json(), "run": str(run.path)}, option=orjson.OPT_INDENT_2).decode())
    else:
        click.echo("\n".join(matrix_lines(matrix)))
        click.echo(str(run.path))
    return exit_code_of(matrix)


def _tell_of_unsound(run: RunFolder, matrix: Matrix) -> None:
    """Trials in which the harness itself did not keep up: their verdicts may owe something to it."""
    for trial in (*matrix.healthy, *matrix.faults):
        verdict = judge_soundness(RunFolder.open(run.path / trial.run)).verdict
        if verdict is not None and verdict.violations:
            click.echo(f"warning: {trial.name}: {verdict.reason}", err=True)


def exit_code_of(matrix: Matrix) -> Exit:
    """1 if a fault was missed or a healthy variant accused, else 4 if a check broke, else 0."""
    if matrix.missed or matrix.accused:
        return Exit.FAIL
    return Exit.UNSOUND if matrix.broken else Exit.PASS


def cost_lines(faults: Sequence[Planted], healthy: Sequence[Planted]) -> list[str]:
    """What would be asked, one line a trial."""
    return [f"{each.code or 'healthy'} {each.mode}: {', '.join(each.checks)}" for each in (*healthy, *faults)]
