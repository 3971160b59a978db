"""The plan of a sweep and what it will cost, known before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass

import click

from harness.cli.counting import Counting
from harness.cli.options import SweepOptions
from harness.clock import NS_PER_S
from harness.drive import CellSpec, cell_name
from workloads import WORKLOADS, PlanCost, WorkloadOptions, plan_cost
from workloads.sessions import SessionGenerator

# An endless cell (--duration) is priced by this many requests.
SAMPLE_REQUESTS = 64
# Prompts sized by a ratio come out up to this much longer than planned, so a cap leaves room for it.
INEXACT_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """The cells of a sweep, in order, all of them asking the same of the server.

    cost is that of one cell; `cost.complete` is False when only --duration ends it and the figures are of a sample.
    requests_asked is what was asked for; it differs from what the cells hold when --max-tokens-total cut them.
    """

    cells: tuple[CellSpec, ...]
    generator: SessionGenerator
    cost: PlanCost
    counting: Counting
    requests_asked: int | None
    max_tokens_total: int | None

    @property
    def total_tokens(self) -> int:
        """Prompt and output tokens of all cells, warm-up included; output at its upper bound."""
        return len(self.cells) * (self.cost.prompt_tokens + self.cost.output_tokens)

    def describe(self) -> str:
        """The cost in words, as it is printed before a run and by --dry-run."""
        cost = self.cost
        about = "" if self.counting.exact else "about "
        if not cost.complete:
            each = (cost.prompt_tokens + cost.output_tokens) / max(1, cost.requests + cost.warmup_requests)
            line = f"cost: {len(self.cells)} cells until their duration is over, {about}{each:,.0f} tokens a request"
        else:
            line = (
                f"cost: {len(self.cells)} cells x {cost.requests + cost.warmup_requests} requests"
                f" ({cost.warmup_requests} of them warm-up), {about}{cost.prompt_tokens:,} prompt tokens and at most"
                f" {cost.output_tokens:,} output tokens each; {about}{self.total_tokens:,} tokens in all"
            )
        lines = [
            line,
            f"      lengths by {self.counting.source}; longest prompt {about}{cost.longest_prompt_tokens:,} tokens",
        ]
        if self.requests_asked is not None and cost.complete and cost.requests < self.requests_asked:
            lines.append(
                f"      --max-tokens-total {self.max_tokens_total:,} cuts every cell from {self.requests_asked} to"
                f" {cost.requests} measured requests"
            )
        return "\n".join(lines)


def plan_sweep(options: SweepOptions, counting: Counting) -> SweepPlan:
    """Build the generator that every cell runs and the cells; UsageError when the options make no sense together."""
    requests = options.requests_per_cell
    generator, cost = _priced(options, counting, requests)
    allowance = None if options.max_tokens_total is None else options.max_tokens_total // len(options.concurrency)
    margin = 1.0 if counting.exact else 1.0 + INEXACT_SHARE
    while allowance is not None and cost.complete and margin * (cost.prompt_tokens + cost.output_tokens) > allowance:
        share = allowance / margin / (cost.prompt_tokens + cost.output_tokens)
        fewer = min(cost.requests - 1, int(cost.requests * share))
        if fewer < 1:
            raise click.UsageError(
                f"--max-tokens-total {options.max_tokens_total:,} does not pay for one request in each cell;"
                " raise it, or ask for shorter prompts, fewer warm-ups or fewer levels"
            )
        generator, cost = _priced(options, counting, fewer)
    cells = tuple(_cell(options, level, allowance) for level in options.concurrency)
    return SweepPlan(
        cells=cells,
        generator=generator,
        cost=cost,
        counting=counting,
        requests_asked=requests,
        max_tokens_total=options.max_tokens_total,
    )


def _priced(options: SweepOptions, counting: Counting, requests: int | None) -> tuple[SessionGenerator, PlanCost]:
    try:
        workload = WorkloadOptions(
            seed=options.seed,
            requests=requests,
            highest_concurrency=max(options.concurrency),
            warmups=options.num_warmups,
            warm_cache=options.cache == "warm",
            input_tokens=options.input_tokens,
            output_tokens=options.output_tokens,
            turns=options.turns,
            think_time_s=options.think_time_s,
        )
        generator = WORKLOADS[options.dataset_name](workload, counting.count)
    except ValueError as error:
        raise click.UsageError(f"{options.dataset_name}: {error}") from None
    limit = SAMPLE_REQUESTS if requests is None else requests
    return generator, plan_cost(generator, request_limit=limit)


def _cell(options: SweepOptions, level: int, allowance: int | None) -> CellSpec:
    return CellSpec(
        cell=cell_name(options.dataset_name, level),
        workload=options.dataset_name,
        concurrency=level,
        cache_mode=options.cache,
        nonce=None,
        seed=options.seed,
        duration_ns=None if options.duration_s is None else round(options.duration_s * NS_PER_S),
        max_tokens=allowance,
        sampling=options.sampling,
    )
