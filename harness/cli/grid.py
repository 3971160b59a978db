"""The cells of a sweep over context lengths and loads, in their order, and what is said of them beforehand."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import click

from harness.cli.budget import Load, SweepPlan, plan_sweep
from harness.cli.counting import Counting
from harness.cli.material import NO_MATERIAL, Material, arrivals_of
from harness.cli.options import SweepOptions
from harness.drive import CellSpec, cell_name
from harness.records import TargetInfo


def plan_grid(options: SweepOptions, counting: Counting, material: Material = NO_MATERIAL) -> tuple[SweepPlan, ...]:
    """A plan for each context length and open load; those of a closed loop have a cell for each concurrency."""
    loads = _loads(options)
    points = [(context, load) for context in options.contexts or (None,) for load in loads]
    total = options.max_tokens_total
    share = None if total is None else total // (len(points) * options.num_runs)
    plans: list[SweepPlan] = []
    for context, load in points:
        own = replace(options, contexts=(), max_tokens_total=share)
        if context is not None:
            own = replace(own, input_tokens=context)
        plans.append(plan_sweep(own, counting, material, load=load, context_tokens=context))
    return tuple(plans)


def cells_in_order(plans: Sequence[SweepPlan], num_runs: int) -> Iterator[tuple[SweepPlan, CellSpec]]:
    """Every cell of every plan, round after round, so that a slow drift of the server meets all of them."""
    for turn in range(num_runs):
        for plan in plans:
            for spec in plan.cells:
                yield plan, spec if num_runs == 1 else _in_round(spec, turn)


def describe_grid(plans: Sequence[SweepPlan], num_runs: int) -> str:
    """The cost in words."""
    words = []
    for plan in plans:
        spec = plan.cells[0]
        context = "" if spec.context_tokens is None else f"{spec.context_tokens:,} tokens"
        point = ", ".join(each for each in (context, spec.arrivals or "") if each)
        words.append(f"{point}: {plan.describe()}" if point else plan.describe())
    if num_runs > 1:
        words.append(f"      all of it {num_runs} times (--num-runs)")
    return "\n".join(words)


def length_warnings(plans: Sequence[SweepPlan], info: TargetInfo) -> list[str]:
    """Prompts that are longer than the server's context, and cells that hold more than its cache."""
    longest = max(plan.cost.longest_prompt_tokens for plan in plans)
    limit = info.max_model_len
    found = []
    if limit is not None and longest > limit:
        found.append(
            f"prompts of about {longest:,} tokens against a context of {limit:,};"
            " the server may refuse them (--input-len makes them shorter)"
        )
    capacity = capacity_tokens(info)
    if capacity is not None:
        held = [
            (spec, working_set_tokens(plan, spec)) for plan in plans for spec in plan.cells if spec.arrivals is None
        ]
        found += [
            f"{spec.cell}: about {tokens:,} tokens in flight against a cache of {capacity:,};"
            " sequences will wait or be preempted"
            for spec, tokens in held
            if tokens > capacity
        ]
    return found


def working_set_tokens(plan: SweepPlan, spec: CellSpec) -> int:
    """Prompt and output tokens of the requests in flight, each of mean length; shared prefixes counted once each."""
    cost = plan.cost
    each = (cost.prompt_tokens + cost.output_tokens) / max(1, cost.requests + cost.warmup_requests)
    return round(spec.concurrency * each)


def capacity_tokens(info: TargetInfo) -> int | None:
    """Tokens that the server's cache holds, by its own account; None if it does not say."""
    details = info.details
    total = details.get("max_total_num_tokens")
    if isinstance(total, int):
        return total
    config = details.get("cache_config_info")
    if isinstance(config, str):
        fields = dict(re.findall(r'(\w+)="([^"]*)"', config))
        blocks, size = fields.get("num_gpu_blocks", ""), fields.get("block_size", "")
        return int(blocks) * int(size) if blocks.isdigit() and size.isdigit() else None
    slots = details.get("total_slots")
    return slots * info.max_model_len if isinstance(slots, int) and info.max_model_len is not None else None


def _loads(options: SweepOptions) -> list[Load | None]:
    if options.timed:
        return [Load(label=f"trace x{options.speed:g}", rate_per_s=None, arrivals=None)]
    if not options.request_rates:
        return [None]
    return [open_load(options, rate) for rate in options.request_rates]


def open_load(options: SweepOptions, rate: str) -> Load:
    """The open load of one --request-rate; UsageError if it makes no sense."""
    try:
        arrivals = arrivals_of(options, rate)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if math.isinf(arrivals.rate_per_s):
        return Load(label="inf", rate_per_s=None, arrivals=arrivals)
    if arrivals.ramp is not None:
        return Load(label=f"{rate}-{arrivals.ramp.end_per_s:g}/s", rate_per_s=None, arrivals=arrivals)
    return Load(label=f"{rate}/s", rate_per_s=arrivals.rate_per_s, arrivals=arrivals)


def _in_round(spec: CellSpec, turn: int) -> CellSpec:
    name = cell_name(spec.workload, spec.concurrency, spec.context_tokens, turn, spec.arrivals)
    return replace(spec, cell=name, round_index=turn)
