"""What `sweep` does once its options are settled: identify, plan, ask, measure, report."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
import orjson

from harness.cli.auto import findings, run_search, told
from harness.cli.budget import SweepPlan
from harness.cli.cold_start import reached_cold
from harness.cli.counting import Counting, by_characters, by_server, by_tokenizer_file
from harness.cli.disk import disk_trouble_is_a_message
from harness.cli.exits import Exit
from harness.cli.grid import cells_in_order, describe_grid, length_warnings, plan_grid
from harness.cli.making import PromptProgress
from harness.cli.material import Material, load_material
from harness.cli.options import SweepOptions
from harness.cli.presets import tell_preset
from harness.cli.progress import CellProgress
from harness.cli.provenance import clock_facts, host_facts, versions
from harness.cli.same_plan import refuse_another_plan
from harness.cli.sending import sending
from harness.cli.sizing import sized
from harness.cli.target import (
    EMBEDDED,
    Access,
    EndpointChoice,
    announced,
    describe,
    identify,
    make_target,
    parse_access,
    planned_endpoint,
)
from harness.cli.verdict_output import unsound
from harness.clock import MonotonicClock
from harness.drive import run_round
from harness.drive.judging import write_verdicts
from harness.drive.probing import keep_probe
from harness.drive.soundness import judge_soundness
from harness.endpoint.client import Client
from harness.endpoint.secret import redact_argv
from harness.endpoint.target import Target, Timeouts
from harness.metrics import CellSummary
from harness.records import SCHEMA_VERSION, RunInfo, TargetInfo
from harness.store import RunFolder, new_run_id, write_derived

CLOCK = MonotonicClock()
LIMIT_FILE = "limit.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """A checked command line; `options` is None when a run is resumed, which brings its own."""

    options: SweepOptions | None
    base_url: str | None
    api_key: str | None
    headers: Sequence[str]
    notes: Mapping[str, str]
    result_dir: Path
    report_dir: Path
    resume: Path | None
    dry_run: bool
    as_json: bool
    argv: tuple[str, ...]
    environment: Mapping[str, str]


async def run_sweep(request: SweepRequest) -> int:
    """Carry a sweep out, from the first line on stderr to the last on stdout; returns the exit code."""
    if request.resume is not None:
        return await _resume(request, request.resume)
    assert request.options is not None
    access = _access(request, request.options)
    options = request.options
    material = replace(load_material(options), progress=PromptProgress())
    if request.dry_run:
        return _dry_run(request, options, material)
    with announced(request.base_url, request.environment) as choice:
        target, info, counting = await _prepare(choice, access, options)
        tell_preset(options.preset, options.sampling, info)
        later = options.exact_lengths or options.auto
        plans = () if later else _planned(options, counting, material, info)
        record = _run_info(request, options, info, counting)
        with disk_trouble_is_a_message(), RunFolder.create(request.result_dir, record) as run:
            if options.exact_lengths:
                material = replace(material, sizing=await sized(run, options, counting, target, CLOCK))
            if options.auto:
                return await _search(request, run, options, counting, material, target)
            if options.exact_lengths:
                plans = _planned(options, counting, material, info)
            return await _measure(request, run, options, plans, target)


def _dry_run(request: SweepRequest, options: SweepOptions, material: Material) -> int:
    """Print the target and the cost; nothing is started and nothing is sent."""
    click.echo(planned_endpoint(request.base_url, request.environment), err=True)
    counting = by_tokenizer_file(options.tokenizer) if options.tokenizer is not None else by_characters()
    click.echo(describe_grid(plan_grid(options, counting, material), options.num_runs))
    return Exit.PASS


def _planned(options: SweepOptions, counting: Counting, material: Material, info: TargetInfo) -> tuple[SweepPlan, ...]:
    """The plans, with their cost and what is doubtful about them told."""
    plans = plan_grid(options, counting, material)
    click.echo(describe_grid(plans, options.num_runs), err=True)
    for text in length_warnings(plans, info):
        click.echo(f"warning: {text}", err=True)
    return plans


def _access(request: SweepRequest, options: SweepOptions) -> Access:
    return parse_access(request.api_key, request.headers, options.retries, options.metrics_urls)


async def _resume(request: SweepRequest, folder: Path) -> int:
    """Complete a run: finished cells stay, the others are asked again under a new nonce."""
    with disk_trouble_is_a_message(), RunFolder.open(folder) as run:
        was = run.info.target
        options = SweepOptions.from_json(run.info.options)
        base_url = request.base_url if request.base_url is not None or was.chosen_by == EMBEDDED else was.base_url
        with announced(base_url, {} if was.chosen_by == EMBEDDED else request.environment) as choice:
            target, info, counting = await _prepare(choice, _access(request, options), options)
            if (info.engine, info.model) != (was.engine, was.model):
                raise click.UsageError(
                    f"{folder} was measured on {was.model} ({was.engine}), this is {info.model} ({info.engine})"
                )
            material = replace(load_material(options), progress=PromptProgress())
            if options.exact_lengths:
                material = replace(material, sizing=await sized(run, options, counting, target, CLOCK))
            if options.auto:
                return await _search(request, run, options, counting, material, target)
            plans = plan_grid(options, counting, material)
            refuse_another_plan(run, plans)
            return await _measure(request, run, options, plans, target)


async def _prepare(
    choice: EndpointChoice, access: Access, options: SweepOptions
) -> tuple[Target, TargetInfo, Counting]:
    """Identify the server, settle the model and how prompts are sized."""
    timeouts = Timeouts(
        connect_s=options.connect_timeout_s,
        first_byte_s=options.first_byte_timeout_s,
        stall_s=options.stall_timeout_s,
        total_s=options.request_timeout_s,
    )
    asked = options.model if options.model is not None else ""
    async with Client(make_target(choice, access, asked, options.endpoint_type, timeouts), CLOCK) as client:
        discovery, model = await identify(client, options.model)
        if options.tokenizer is not None:
            counting = by_tokenizer_file(options.tokenizer)
        else:
            counting = await by_server(client)
    target = make_target(choice, access, model.name, options.endpoint_type, timeouts, discovery.engine)
    return target, describe(choice, discovery, model, options.endpoint_type), counting


def _run_info(request: SweepRequest, options: SweepOptions, info: TargetInfo, counting: Counting) -> RunInfo:
    now = CLOCK.utc_now()
    return RunInfo(
        schema_version=SCHEMA_VERSION,
        run_id=new_run_id(now, options.dataset_name, info.model, secrets.token_hex(3)),
        command="sweep",
        argv=redact_argv(request.argv),
        started_utc=now.isoformat(),
        clock=clock_facts(CLOCK),
        versions=versions(),
        host=host_facts(),
        target=info,
        seed=options.seed,
        options={**options.as_json(), "lengths_by": counting.source},
        goodput=options.goodput,
        notes=request.notes,
    )


async def _measure(
    request: SweepRequest, run: RunFolder, options: SweepOptions, plans: Sequence[SweepPlan], target: Target
) -> int:
    """Run every cell that is not finished yet, then measure and report what is there."""
    progress = CellProgress()
    counting = plans[0].counting
    count_tokens = counting.count if counting.exact else None
    try:
        async with sending(target, CLOCK, options) as client:
            await keep_probe(run, client)
            for plan, spec in cells_in_order(plans, options.num_runs):
                if not run.is_finished(spec.cell):
                    spec = await reached_cold(run, options, spec, target, counting, CLOCK)
                    await run_round(run, spec, plan.generator, client, CLOCK, progress, count_tokens=count_tokens)
    except asyncio.CancelledError:
        progress.close()
        _tell_interrupted(run)
        raise
    return _conclude(request, run)


def _tell_interrupted(run: RunFolder) -> None:
    click.echo(f"interrupted; complete it with: ling-bench sweep --resume {run.path}", err=True)


async def _search(
    request: SweepRequest,
    run: RunFolder,
    options: SweepOptions,
    counting: Counting,
    material: Material,
    target: Target,
) -> int:
    """Look for the limit, keep what was found beside the cells, then report like any sweep."""
    own = replace(options, contexts=(), input_tokens=options.contexts[0]) if options.contexts else options
    try:
        async with sending(target, CLOCK, options) as client:
            await keep_probe(run, client)
            trials = await run_search(run, client, CLOCK, own, counting, material)
    except asyncio.CancelledError:
        _tell_interrupted(run)
        raise
    found = findings(own, trials)
    write_derived(run, LIMIT_FILE, found)
    code = _conclude(request, run)
    click.echo(told(found), err=True)
    return code


def _conclude(request: SweepRequest, run: RunFolder) -> int:
    """Derive the figures, draw the report, print the table; the run folder is the last line of stdout."""
    from harness.report.build import build_report
    from harness.report.derive import load_run, write_summary
    from harness.report.terminal import sweep_table
    from harness.report.verdicts import verdict_table

    data = load_run(run)
    summary = data.summary
    write_summary(run, summary)
    soundness = judge_soundness(run, data.histories)
    write_verdicts(run, [soundness])
    files = build_report([data], request.report_dir / run.info.run_id)
    click.echo(f"report: {files.index_html}", err=True)
    if request.as_json:
        content = {**summary.as_json(), "soundness": soundness.verdict}
        click.echo(orjson.dumps(content, default=dict, option=orjson.OPT_INDENT_2).decode())
    else:
        click.echo(sweep_table(summary))
        click.echo(f"\n{verdict_table([soundness])}\n")
        click.echo(str(run.path))
    if not any(cell.value("completed") for cell in summary.cells):
        click.echo(f"every request failed: {_reasons(summary.cells)}", err=True)
        return Exit.FAIL
    return Exit.UNSOUND if unsound([soundness]) else Exit.PASS


def _reasons(cells: Sequence[CellSummary]) -> str:
    """Why requests failed, most frequent first, with one server's own words each."""
    counts: dict[str, int] = {}
    words: dict[str, str] = {}
    for failure in (failure for cell in cells for failure in cell.failures):
        counts[failure.reason] = counts.get(failure.reason, 0) + failure.count
        words.setdefault(failure.reason, failure.example)
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    return "; ".join(f"{count} x {reason} ({words[reason]})" for reason, count in ranked) or "no request was sent"
