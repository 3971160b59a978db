"""How well the harness itself did in a run, read from its records."""

from __future__ import annotations

from collections.abc import Mapping

from harness.checks.judgement import Judgement
from harness.checks.soundness import NAME, Conduct, judge
from harness.records import ErrorKind, RoundPlan
from harness.store import CellHistory, RunFolder, read_cell

_LEVEL_COMMANDS = frozenset({"sweep", "duel"})


def judge_soundness(run: RunFolder, known: Mapping[str, CellHistory] | None = None) -> Judgement:
    """The verdict on the harness's own conduct in every cell of a run; `known`: histories that are read already."""
    plans = {plan.cell: plan for plan in run.rounds()}
    read = {} if known is None else known
    histories = [read[cell] if cell in read else read_cell(run, cell) for cell in run.cells()]
    conducts = [_conduct(run, history, plans.get(history.cell)) for history in histories]
    return Judgement(check=NAME, verdict=judge(conducts))


def _conduct(run: RunFolder, history: CellHistory, plan: RoundPlan | None) -> Conduct:
    paused = run.info.options.get("think_time_s") not in (None, 0)
    closed = plan is not None and plan.arrivals is None
    return Conduct(
        cell=history.cell,
        info=history.info,
        records=history.records,
        lost=_lost(history),
        keeps_level=run.info.command in _LEVEL_COMMANDS and closed and not paused,
    )


def _lost(history: CellHistory) -> dict[str, int]:
    """What a finished cell may not lack."""
    died = sum(
        each.complete.error is not None and each.complete.error.kind is ErrorKind.HARNESS_DIED
        for each in history.records
    )
    return {
        "requests without an answer on record": died,
        "request ids without a record": len(history.gap),
        "lines of the history that were cut or could not be read": history.torn_lines + history.unreadable_lines,
        "answers that belong to no recorded request": history.orphan_completes,
        "requests that lost their token times": history.lost_times,
    }
