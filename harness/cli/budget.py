"""The plan of a sweep and what it will cost, known before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass, replace

import click

from harness.cli.counting import Counting
from harness.cli.material import NO_MATERIAL, Material, make_generator
from harness.cli.options import SweepOptions
from harness.clock import NS_PER_S
from harness.drive import CellSpec, cell_name
from workloads import PlanCost, plan_cost
from workloads.arrivals import Arrivals
from workloads.sessions import SessionGenerator

# Most requests in flight under an open load unless a cap is given, and connections opened beforehand.
OPEN_LOAD_LIMIT = 4096
OPEN_LOAD_CONNECTIONS = 64
ALL_REQUESTS = 10_000_000
# An endless cell (--duration) is priced by this many requests.
SAMPLE_REQUESTS = 64
# Prompts sized by a ratio come out up to this much longer than planned, so a cap leaves room for it.
INEXACT_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """An open load: what it is called, its finite rate, and its arrivals (None: the trace's own times)."""

    label: str
    rate_per_s: float | None
    arrivals: Arrivals | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """The cells of a sweep, in order, all of them asking the same of the server.

    cost is that of one cell; `cost.complete` is False when only --duration ends it and the figures are of a sample.
    requests_asked is what was asked for; it differs from what the cells hold when --max-tokens-total cut them.
    exact_lengths: prompts have exactly the planned lengths by the server's own count.
    """

    cells: tuple[CellSpec, ...]
    generator: SessionGenerator
    cost: PlanCost
    counting: Counting
    requests_asked: int | None
    max_tokens_total: int | None
    exact_lengths: bool = False

    @property
    def total_tokens(self) -> int:
        """Prompt and output tokens of all cells, warm-up included; output at its upper bound."""
        return len(self.cells) * (self.cost.prompt_tokens + self.cost.output_tokens)

    def describe(self) -> str:
        """The cost in words, as it is printed before a run and by --dry-run."""
        cost = self.cost
        about = "" if self.exact_lengths or self.counting.exact else "about "
        source = "the server's own count, exactly" if self.exact_lengths else self.counting.source
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
            f"      lengths by {source}; longest prompt {about}{cost.longest_prompt_tokens:,} tokens",
        ]
        if self.requests_asked is not None and cost.complete and cost.requests < self.requests_asked:
            lines.append(
                f"      --max-tokens-total {self.max_tokens_total:,} cuts every cell from {self.requests_asked} to"
                f" {cost.requests} measured requests"
            )
        return "\n".join(lines)


def plan_sweep(
    options: SweepOptions,
    counting: Counting,
    material: Material = NO_MATERIAL,
    *,
    load: Load | None = None,
    context_tokens: int | None = None,
) -> SweepPlan:
    """Build the generator that every cell runs and the cells; UsageError when the options make no sense together.

    load: an open load, which is one cell; None means a cell for each concurrency. context_tokens: what the cells are
    marked with.
    """
    requests = options.requests_per_cell
    specs = _cells(options, load, context_tokens)
    generator, cost = _priced(options, counting, material, requests, load)
    allowance = None if options.max_tokens_total is None else options.max_tokens_total // len(specs)
    exact = material.sizing is not None
    margin = 1.0 if exact or counting.exact else 1.0 + INEXACT_SHARE
    while allowance is not None and cost.complete and margin * (cost.prompt_tokens + cost.output_tokens) > allowance:
        share = allowance / margin / (cost.prompt_tokens + cost.output_tokens)
        fewer = min(cost.requests - 1, int(cost.requests * share))
        if fewer < 1:
            raise click.UsageError(
                f"--max-tokens-total {options.max_tokens_total:,} does not pay for one request in each cell;"
                " raise it, or ask for shorter prompts, fewer warm-ups or fewer levels"
            )
        generator, cost = _priced(options, counting, material, fewer, load)
    pieces = () if material.sizing is None else material.sizing.nonce_pieces
    return SweepPlan(
        cells=tuple(replace(spec, max_tokens=allowance, nonce_pieces=pieces) for spec in specs),
        generator=generator,
        cost=cost,
        counting=counting,
        requests_asked=requests,
        max_tokens_total=options.max_tokens_total,
        exact_lengths=exact,
    )


def _priced(
    options: SweepOptions, counting: Counting, material: Material, requests: int | None, load: Load | None
) -> tuple[SessionGenerator, PlanCost]:
    arrivals = None if load is None else load.arrivals
    try:
        generator = make_generator(options, counting, material, requests=requests, arrivals=arrivals)
        endless = requests is None and generator.spec().get("sessions") is None
        cost = plan_cost(generator, request_limit=SAMPLE_REQUESTS if endless else ALL_REQUESTS)
    except ValueError as error:
        raise click.UsageError(f"{options.dataset_name}: {error}") from None
    finally:
        if material.progress is not None:
            material.progress.finished()
    return generator, cost


def _cells(options: SweepOptions, load: Load | None, context_tokens: int | None) -> list[CellSpec]:
    base = CellSpec(
        cell="to be named",
        workload=options.dataset_name,
        concurrency=max(options.concurrency),
        cache_mode=options.cache,
        nonce=None,
        seed=options.seed,
        duration_ns=None if options.duration_s is None else round(options.duration_s * NS_PER_S),
        sampling=options.sampling,
        context_tokens=context_tokens,
    )
    if load is None:
        return [
            replace(base, cell=cell_name(base.workload, level, context_tokens), concurrency=level)
            for level in options.concurrency
        ]
    cap = OPEN_LOAD_LIMIT if options.in_flight_cap is None else options.in_flight_cap
    return [
        replace(
            base,
            cell=cell_name(base.workload, cap, context_tokens, arrivals=load.label),
            concurrency=cap,
            arrivals=load.label,
            request_rate=load.rate_per_s,
            connections=min(cap, OPEN_LOAD_CONNECTIONS),
        )
    ]
