"""What `duel` does once its options are settled: two runs whose cells take turns, then the comparison."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from harness.cli.budget import plan_sweep
from harness.cli.comparing import Asked, put_side_by_side, tell
from harness.cli.counting import Counting, by_server, by_tokenizer_file
from harness.cli.disk import disk_trouble_is_a_message
from harness.cli.duel_options import SideOptions
from harness.cli.exits import Exit, NothingMeasured
from harness.cli.making import PromptProgress
from harness.cli.material import NO_MATERIAL, Material
from harness.cli.options import SweepOptions
from harness.cli.progress import CellProgress
from harness.cli.provenance import clock_facts, host_facts, versions
from harness.cli.sizing import sized
from harness.cli.target import EndpointChoice, describe, identify, make_target, parse_access
from harness.cli.verdict_output import unsound
from harness.clock import MonotonicClock
from harness.drive import CellSpec, cell_name, run_round
from harness.drive.judging import write_verdicts
from harness.drive.probing import keep_probe
from harness.drive.soundness import judge_soundness
from harness.endpoint.client import Client
from harness.endpoint.secret import redact_argv
from harness.endpoint.target import Target, Timeouts
from harness.endpoint.url import normalise_base_url
from harness.records import SCHEMA_VERSION, RunInfo, TargetInfo
from harness.report.compare.alike import no_hits
from harness.report.compare.sides import measured_side
from harness.report.derive import derive
from harness.store import RunFolder, new_run_id
from workloads import PlanCost
from workloads.plan import Json
from workloads.sessions import SessionGenerator

CLOCK = MonotonicClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class DuelRequest:
    """A checked command line. contexts: prompt lengths, empty for the workload's own. rounds: cells a side a point."""

    sides: tuple[SideOptions, ...]
    plan: SweepOptions
    contexts: tuple[int, ...]
    rounds: int
    asked: Asked
    notes: Mapping[str, str]
    result_dir: Path
    dry_run: bool
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One side, identified: where it is, what it is, and how its tokens are counted."""

    options: SideOptions
    target: Target
    info: TargetInfo
    counting: Counting


@dataclass(frozen=True, slots=True, kw_only=True)
class Bout:
    """One point of the plan: a generator that both sides are asked, and its cell before a round is chosen."""

    generator: SessionGenerator
    spec: CellSpec
    cost: PlanCost


async def run_duel(request: DuelRequest) -> int:
    """Carry a duel out; returns the exit code."""
    contenders = []
    for side in request.sides:
        contender = await _identified(side)
        click.echo(f"{side.letter}: {contender.target.base.root}, model {contender.info.model}", err=True)
        contenders.append(contender)
    first = contenders[0]
    if request.dry_run:
        click.echo(_cost(request, planned(request, first.counting), first.counting))
        return Exit.PASS
    material = Material(progress=PromptProgress())
    bouts = [] if request.plan.exact_lengths else _announced(request, contenders, material)
    duel_id = secrets.token_hex(4)
    with disk_trouble_is_a_message(), contextlib.ExitStack() as stack:
        runs = [
            stack.enter_context(
                RunFolder.create(request.result_dir, _run_info(request, contender, duel_id, first.counting))
            )
            for contender in contenders
        ]
        if request.plan.exact_lengths:
            sizing = await sized(runs[0], request.plan, first.counting, first.target, CLOCK, text_only=True)
            bouts = _announced(request, contenders, replace(material, sizing=sizing))
        await _fight(request, bouts, contenders, runs)
        return _conclude(request, runs)


async def _identified(side: SideOptions) -> Contender:
    """Ask a server what it is, settle the model and how its tokens are counted; UsageError on a bad address."""
    try:
        base = normalise_base_url(side.base_url)
    except ValueError as error:
        raise click.UsageError(f"--{side.letter.lower()}: {error}") from None
    choice = EndpointChoice(base=base, chosen_by=f"option --{side.letter.lower()}")
    access = parse_access(side.api_key, side.headers, side.retries, side.metrics_urls)
    timeouts = Timeouts(
        connect_s=side.connect_timeout_s,
        first_byte_s=side.first_byte_timeout_s,
        stall_s=side.stall_timeout_s,
        total_s=side.request_timeout_s,
    )
    asked = side.model if side.model is not None else ""
    async with Client(make_target(choice, access, asked, side.endpoint_type, timeouts), CLOCK) as client:
        discovery, model = await identify(client, side.model)
        counting = by_tokenizer_file(side.tokenizer) if side.tokenizer is not None else await by_server(client)
    return Contender(
        options=side,
        target=make_target(choice, access, model.name, side.endpoint_type, timeouts, discovery.engine),
        info=describe(choice, discovery, model, side.endpoint_type),
        counting=counting,
    )


def _announced(request: DuelRequest, contenders: Sequence[Contender], material: Material) -> list[Bout]:
    """The points, with their cost and what is doubtful about them told."""
    counting = contenders[0].counting
    bouts = planned(request, counting, material)
    click.echo(_cost(request, bouts, counting), err=True)
    _warn_of_length(bouts, contenders)
    return bouts


def planned(request: DuelRequest, counting: Counting, material: Material = NO_MATERIAL) -> list[Bout]:
    """The points in their order: longest prompts first, so that a missing cache or a short context shows at once."""
    lengths: Sequence[int | None] = sorted(request.contexts, reverse=True) if request.contexts else [None]
    bouts = []
    for length in lengths:
        options = request.plan if length is None else replace(request.plan, input_tokens=length)
        plan = plan_sweep(options, counting, material)
        for spec in plan.cells:
            bouts.append(Bout(generator=plan.generator, spec=replace(spec, context_tokens=length), cost=plan.cost))
    return bouts


def order_of(rounds: int) -> list[tuple[int, int]]:
    """(side, round) of the cells at one point: A B, B A, A B, ... so that a steady drift favours neither."""
    return [(side, turn) for turn in range(rounds) for side in ((0, 1) if turn % 2 == 0 else (1, 0))]


def _cost(request: DuelRequest, bouts: Sequence[Bout], counting: Counting) -> str:
    exact = request.plan.exact_lengths and not request.dry_run
    about = "" if counting.exact or exact else "about "
    source = "side A's own count, exactly" if exact else counting.source
    cells = 2 * request.rounds
    requests = cells * sum(bout.cost.requests + bout.cost.warmup_requests for bout in bouts)
    tokens = cells * sum(bout.cost.prompt_tokens + bout.cost.output_tokens for bout in bouts)
    return (
        f"cost: {len(bouts)} points x {cells} cells (A B B A), {requests:,} requests, {about}{tokens:,} tokens in all,"
        f" half of them each\n      lengths by {source}"
    )


def _warn_of_length(bouts: Sequence[Bout], contenders: Sequence[Contender]) -> None:
    longest = max(bout.cost.longest_prompt_tokens for bout in bouts)
    for contender in contenders:
        limit = contender.info.max_model_len
        if limit is not None and longest > limit:
            click.echo(
                f"warning: prompts of about {longest:,} tokens, {contender.options.letter} takes {limit:,}",
                err=True,
            )


def _run_info(request: DuelRequest, contender: Contender, duel_id: str, sized_by: Counting) -> RunInfo:
    now = CLOCK.utc_now()
    side = contender.options
    plan = side.applied_to(request.plan)
    more: dict[str, Json] = {
        "contexts": list(request.contexts),
        "rounds": request.rounds,
        "duel": duel_id,
        "side": side.letter,
        "lengths_by": sized_by.source,
    }
    return RunInfo(
        schema_version=SCHEMA_VERSION,
        run_id=new_run_id(now, plan.dataset_name, contender.info.model, secrets.token_hex(3)),
        command="duel",
        argv=redact_argv(request.argv),
        started_utc=now.isoformat(),
        clock=clock_facts(CLOCK),
        versions=versions(),
        host=host_facts(),
        target=contender.info,
        seed=plan.seed,
        options={**plan.as_json(), **more},
        goodput=plan.goodput,
        notes=request.notes,
    )


async def _fight(
    request: DuelRequest, bouts: Sequence[Bout], contenders: Sequence[Contender], runs: Sequence[RunFolder]
) -> None:
    """Run every cell; after the first of each side, a side whose cache does not hit ends the duel."""
    try:
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(Client(each.target, CLOCK)) for each in contenders]
            for run, client in zip(runs, clients, strict=True):
                await keep_probe(run, client)
            for number, bout in enumerate(bouts):
                for place, (side, turn) in enumerate(order_of(request.rounds)):
                    await _one_cell(bout, turn, contenders[side], clients[side], runs[side])
                    if number == 0 and place == 1 and not request.asked.anyway:
                        _refuse_without_hits(request, runs)
    except asyncio.CancelledError:
        paths = " ".join(str(run.path) for run in runs)
        click.echo(f"interrupted; compare what is there with: ling-bench compare {paths}", err=True)
        raise


async def _one_cell(bout: Bout, turn: int, contender: Contender, client: Client, run: RunFolder) -> None:
    spec = bout.spec
    name = cell_name(spec.workload, spec.concurrency, spec.context_tokens, turn)
    length = "" if spec.context_tokens is None else f", {spec.context_tokens:,} tokens"
    letter = contender.options.letter
    progress = CellProgress(lambda cell: f"{letter}: {cell.workload}{length}, concurrency {cell.concurrency}")
    count_tokens = contender.counting.count if contender.counting.exact else None
    try:
        await run_round(
            run,
            replace(spec, cell=name, round_index=turn, sampling=contender.options.sampled(spec.sampling)),
            bout.generator,
            client,
            CLOCK,
            progress,
            count_tokens=count_tokens,
        )
    finally:
        progress.close()


def _refuse_without_hits(request: DuelRequest, runs: Sequence[RunFolder]) -> None:
    """NothingMeasured if a side's first cell shows no cache hit where there should be one."""
    for side, run in zip(request.sides, runs, strict=True):
        trouble = no_hits(measured_side(side.letter, run, side.label))
        if trouble is not None:
            raise NothingMeasured(f"{trouble.text} A duel without it would be unfair; --anyway goes on.")


def _conclude(request: DuelRequest, runs: Sequence[RunFolder]) -> int:
    """Derive both runs, compare them, print where they are; exit code 4 if the harness did not keep up."""
    sides, conduct = [], []
    for side, run in zip(request.sides, runs, strict=True):
        derive(run)
        conduct.append(judge_soundness(run))
        write_verdicts(run, conduct[-1:])
        sides.append(measured_side(side.letter, run, side.label))
        click.echo(f"{side.letter}: {run.path}", err=True)
    told = replace(request.asked, anyway=True)
    code = tell(put_side_by_side(sides, told), told)
    for side, found in zip(request.sides, conduct, strict=True):
        if unsound([found]) and found.verdict is not None:
            click.echo(f"warning: {side.letter}: {found.verdict.reason}; nothing here is to be believed", err=True)
    return Exit.UNSOUND if unsound(conduct) else code
