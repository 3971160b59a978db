"""From the records of a run to its summary, and the two derived files that hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from harness.drive.lengths import LENGTHS
from harness.gate.objectives import is_objective_cell
from harness.metrics import CellSummary, MetricOptions, summarise_cell
from harness.records import RoundPlan, RunInfo
from harness.report.bound import server_load
from harness.report.correct import with_correct_goodput
from harness.report.drafts import counted_in_cell
from harness.report.rounds import over_rounds
from harness.report.verdicts import read_judgements
from harness.report.warnings import history_warnings, run_warnings
from harness.store import CellHistory, RunFolder, read_cell, uncollected, write_derived
from workloads.plan import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """The figures of a run: one summary per cell, in the order of the plan, and what to be wary of."""

    path: Path
    info: RunInfo
    percentiles: tuple[float, ...]
    cells: tuple[CellSummary, ...]
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Json]:
        """The content of summary.json."""
        target = self.info.target
        return {
            "run": str(self.path),
            "target": target.base_url,
            "chosen_by": target.chosen_by,
            "model": target.model,
            "warnings": list(self.warnings),
            "cells": [cell.as_json() for cell in self.cells],
            "over_rounds": over_rounds(self.cells),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """A run with its records, as the figures need them; `histories` is keyed by cell."""

    summary: RunSummary
    histories: Mapping[str, CellHistory]


@uncollected()
def load_run(run: RunFolder, percentiles: Sequence[float] | None = None) -> RunData:
    """Read every cell of a run and compute its metrics.

    `percentiles` win over those the run was made with. Raises StoreError if a cell's files cannot be read.
    """
    chosen = tuple(percentiles) if percentiles is not None else _own_percentiles(run.info)
    options = MetricOptions(goodput=run.info.goodput, percentiles=chosen)
    plans = {plan.cell: plan for plan in run.rounds()}
    histories: dict[str, CellHistory] = {}
    measured: list[Future[CellSummary]] = []
    with ThreadPoolExecutor(1) as pool:  # Half of measuring is numpy's, which leaves the interpreter to the reading.
        for name in run.cells():
            if not _left_out(run.info, name, plans.get(name)):
                histories[name] = read_cell(run, name)
                job = (histories[name], plans.get(name), options, run.info.target.engine)
                measured.append(pool.submit(_summarise, *job))
    cells = with_correct_goodput([each.result() for each in measured], read_judgements(run.path))
    summary = RunSummary(
        path=run.path,
        info=run.info,
        percentiles=chosen,
        cells=cells,
        warnings=run_warnings(
            run.info,
            cells,
            aborted=run.aborted_cells(),
            planned=tuple(name for name, plan in plans.items() if not _left_out(run.info, name, plan)),
        ),
    )
    return RunData(summary=summary, histories=histories)


def derive(run: RunFolder, percentiles: Sequence[float] | None = None) -> RunSummary:
    """Compute a run's metrics from its records alone and write summary.json and metrics.json beside them."""
    summary = load_run(run, percentiles).summary
    write_summary(run, summary)
    return summary


def write_summary(run: RunFolder, summary: RunSummary) -> None:
    """Write summary.json (flat, under vLLM's names) and metrics.json (each metric with unit, count and note)."""
    write_derived(run, "summary.json", summary.as_json())
    cells = [
        {
            "cell": cell.cell,
            "concurrency": cell.concurrency,
            "context_tokens": cell.context_tokens,
            "arrivals": cell.arrivals,
            "metrics": cell.metrics,
            "classes": cell.classes,
        }
        for cell in summary.cells
    ]
    write_derived(run, "metrics.json", {"run": str(summary.path), "cells": cells})


def _left_out(info: RunInfo, cell: str, plan: RoundPlan | None) -> bool:
    """Whether a cell is none to measure: it only found out how to ask, or it is a round of a check of a gate."""
    return _prepares(plan) or (info.command == "gate" and not is_objective_cell(cell))


def _prepares(plan: RoundPlan | None) -> bool:
    """Whether a cell only found out how to ask, and measured nothing."""
    return plan is not None and plan.generator == LENGTHS


def _own_percentiles(info: RunInfo) -> tuple[float, ...]:
    asked = info.options.get("metric_percentiles")
    if not isinstance(asked, Sequence) or isinstance(asked, str):
        return MetricOptions().percentiles
    return tuple(float(each) for each in asked if isinstance(each, (int, float)))


def _summarise(history: CellHistory, plan: RoundPlan | None, options: MetricOptions, engine: str | None) -> CellSummary:
    summary = summarise_cell(
        history.records,
        history.info,
        options,
        cell=history.cell,
        workload=None if plan is None else plan.generator,
        concurrency=None if plan is None else plan.concurrency,
        warnings=history_warnings(history),
        counted=counted_in_cell(history.info),
    )
    if history.info is not None:
        load = server_load(history.info, engine)
        summary = replace(summary, metrics=(*summary.metrics, *load.metrics()), bound=load.bound)
    if plan is None:
        return summary
    return replace(
        summary,
        context_tokens=plan.context_tokens,
        arrivals=plan.arrivals,
        request_rate=plan.request_rate,
        round_index=plan.round_index,
    )
