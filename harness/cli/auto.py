"""`sweep --auto`: the knee, or the largest load that meets the objectives, by measuring cell after cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import click

from harness.cli.budget import SweepPlan, plan_sweep
from harness.cli.counting import Counting
from harness.cli.grid import open_load
from harness.cli.material import Material
from harness.cli.options import SweepOptions
from harness.cli.progress import CellProgress
from harness.cli.same_plan import refuse_another_cell
from harness.clock import Clock
from harness.drive import CellSpec, cell_name, run_round
from harness.drive.limit import LimitSearch, Trial
from harness.drive.ports import Sender
from harness.metrics import CellSummary, MetricOptions, summarise_cell
from harness.store import RunFolder, read_cell
from workloads.plan import Json

GOOD_SHARE = 0.9
FEWEST_REQUESTS = 64
REQUESTS_PER_SLOT = 4
SECONDS_OF_RATE = 20


def search_of(options: SweepOptions) -> LimitSearch:
    """The search that the options ask for: over rates from the one given, else over concurrency."""
    rate = options.request_rates[0] if options.request_rates else None
    start = float(min(options.concurrency)) if rate is None else float(rate)
    return LimitSearch(
        start=start, highest=float(options.auto_max), whole=rate is None, objectives=bool(options.goodput)
    )


async def run_search(
    run: RunFolder, client: Sender, clock: Clock, options: SweepOptions, counting: Counting, material: Material
) -> list[Trial]:
    """Measure cell after cell until the search has ended; each is in the run folder like any other.

    What to measure follows from what was measured, so a search that is resumed goes the same way over its finished
    cells and on from there. UsageError if they asked something else.
    """
    search = search_of(options)
    trials: list[Trial] = []
    progress = CellProgress()
    count_tokens = counting.count if counting.exact else None
    while (wanted := search.next_load(trials)) is not None:
        load, confirms = wanted
        plan, spec = _cell(options, counting, material, load, len(trials))
        refuse_another_cell(run, spec, plan.generator)
        if not run.is_finished(spec.cell):
            await run_round(run, spec, plan.generator, client, clock, progress, count_tokens=count_tokens)
        trial = _judged(run, spec.cell, options, load, confirms=confirms)
        click.echo(_told(trial), err=True)
        trials.append(trial)
    return trials


def findings(options: SweepOptions, trials: Sequence[Trial]) -> Mapping[str, Json]:
    """What the search found, as plain data."""
    search = search_of(options)
    return {
        "over": "concurrency" if search.whole else "request rate",
        "limit": search.limit(trials) if search.objectives else None,
        "knee": search.knee(trials),
        "objectives": dict(options.goodput),
        "good_share": GOOD_SHARE,
        "trials": [
            {"load": each.load, "met": each.met, "throughput": each.throughput, "confirms": each.confirms}
            for each in trials
        ],
    }


def told(found: Mapping[str, Json]) -> str:
    """The findings in a line."""
    limit, knee = found["limit"], found["knee"]
    parts = ["knee not reached" if knee is None else f"knee at {found['over']} {knee:g}"]
    if found["objectives"]:
        parts.insert(
            0, f"largest {found['over']} that meets the objectives: {'none' if limit is None else f'{limit:g}'}"
        )
    return "; ".join(parts)


def _cell(
    options: SweepOptions, counting: Counting, material: Material, load: float, index: int
) -> tuple[SweepPlan, CellSpec]:
    """One load as a plan of its own: the same sessions begin every cell, more of them at higher loads."""
    if options.request_rates:
        requests = options.num_prompts or max(FEWEST_REQUESTS, round(SECONDS_OF_RATE * load))
        own = replace(options, request_rates=(f"{load:g}",), num_prompts=requests)
        plan = plan_sweep(own, counting, material, load=open_load(own, f"{load:g}"))
    else:
        requests = options.num_prompts or max(FEWEST_REQUESTS, round(REQUESTS_PER_SLOT * load))
        plan = plan_sweep(replace(options, concurrency=(round(load),), num_prompts=requests), counting, material)
    spec = plan.cells[0]
    name = cell_name(spec.workload, spec.concurrency, spec.context_tokens, index, spec.arrivals)
    return plan, replace(spec, cell=name, round_index=index)


def _judged(run: RunFolder, cell: str, options: SweepOptions, load: float, *, confirms: bool) -> Trial:
    history = read_cell(run, cell)
    measure = MetricOptions(goodput=options.goodput, percentiles=options.metric_percentiles)
    summary: CellSummary = summarise_cell(history.records, history.info, measure, cell=cell)
    good, throughput = summary.value("good_share"), summary.value("output_throughput")
    return Trial(
        load=load,
        met=None if not options.goodput else good is not None and good >= GOOD_SHARE,
        throughput=0.0 if throughput is None else throughput,
        confirms=confirms,
    )


def _told(trial: Trial) -> str:
    met = "" if trial.met is None else ", objectives met" if trial.met else ", objectives missed"
    again = " again" if trial.confirms else ""
    return f"load {trial.load:g}{again}: {trial.throughput:,.0f} output tokens/s{met}"
