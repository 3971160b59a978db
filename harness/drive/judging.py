"""Judging a run from its records alone, as often as one likes, and keeping the verdicts beside them."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence

from harness.checks.check import Check
from harness.checks.judgement import Judgement
from harness.checks.verdict import Status, Verdict
from harness.drive.check_history import load_history, rounds_of
from harness.store import RunFolder, StoreError, write_derived

VERDICTS = "verdicts.json"
ENDED_BEFORE = "the run ended before it was asked"


def judge_run(run: RunFolder, checks: Mapping[str, Check]) -> tuple[Judgement, ...]:
    """Judge every check that the run chose, and write verdicts.json; StoreError if the run chose none that is known.

    Nothing is asked: what a verdict would ask for stays in it.
    """
    chosen = [checks[name] for name in chosen_checks(run) if name in checks]
    if not chosen:
        raise StoreError(f"{run.path} holds no check; ling-bench report shows what was measured")
    judgements = tuple(guarded(run, check.name, judge_again(run, check)) for check in chosen)
    write_verdicts(run, judgements)
    return judgements


def chosen_checks(run: RunFolder) -> tuple[str, ...]:
    """The checks a run was started for, in order; none for a run of another command."""
    names = run.info.options.get("checks")
    return tuple(str(name) for name in names) if isinstance(names, Sequence) and not isinstance(names, str) else ()


def judge_again(run: RunFolder, check: Check) -> Callable[[], Verdict]:
    """A call that judges what there is of a check in a run."""

    def judge() -> Verdict:
        if check.disturbs and run.info.options.get("exclusive_server") is not True:
            return not_run(check, "its steps disturb others: it runs only with --exclusive-server")
        if not rounds_of(run, check.name):
            return not_run(check, ENDED_BEFORE)
        return check.judge(load_history(run, check.name))

    return judge


def guarded(run: RunFolder, name: str, judge: Callable[[], Verdict]) -> Judgement:
    """The verdict of `judge`, or its traceback kept in the run; trouble with the disk goes on."""
    try:
        return Judgement(check=name, verdict=judge())
    except StoreError:
        raise
    except Exception:  # a bug of one check must neither stop the others nor lose what was asked
        return crashed(run, name)


def crashed(run: RunFolder, name: str) -> Judgement:
    """Keep the traceback of the exception being handled."""
    file = f"{name}.traceback.txt"
    (run.path / file).write_text(traceback.format_exc(), encoding="utf-8")
    return Judgement(check=name, traceback=file)


def not_run(check: Check, reason: str) -> Verdict:
    """The verdict of a check that was not asked."""
    return Verdict(check=check.name, status=Status.INCONCLUSIVE, reason=f"not run: {reason}")


def write_verdicts(run: RunFolder, judgements: Sequence[Judgement]) -> None:
    """Write verdicts.json, which can be rebuilt from the records."""
    write_derived(run, VERDICTS, {"run": run.info.run_id, "checks": judgements})
