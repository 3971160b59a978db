"""What `check` does once its options are settled: identify, find out what works, ask, judge, report."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click

from harness.checks.check import Check
from harness.checks.history import Capabilities
from harness.checks.judgement import Judgement
from harness.checks.registry import CHECKS
from harness.cli.check_options import CheckOptions
from harness.cli.counting import Counting, by_characters, by_server, by_tokenizer_file
from harness.cli.disk import disk_trouble_is_a_message
from harness.cli.estimate import Rates, cost_line, measured_rates
from harness.cli.exits import Exit, NothingMeasured
from harness.cli.found_texts import found_texts
from harness.cli.other_server import OtherServer, ask_other
from harness.cli.presets import sampled_fields, tell_checks_preset
from harness.cli.progress import CellProgress, round_of
from harness.cli.provenance import clock_facts, host_facts, versions
from harness.cli.target import (
    Access,
    EndpointChoice,
    announced,
    describe,
    identify,
    make_target,
    parse_access,
    planned_endpoint,
)
from harness.cli.verdict_output import conclude
from harness.clock import NS_PER_S, MonotonicClock
from harness.drive.checking import CheckSetting, find_capabilities, first_round, on_route, run_check
from harness.drive.judging import crashed, not_run, write_verdicts
from harness.drive.probing import keep_probe
from harness.endpoint.client import Client
from harness.endpoint.discovery import tokenize
from harness.endpoint.secret import redact_argv
from harness.endpoint.target import EndpointType, Target, Timeouts
from harness.records import SCHEMA_VERSION, RunInfo, TargetInfo
from harness.store import RunFolder, StoreError, new_run_id
from workloads.material import Material, enough_ids
from workloads.mtp import NAME as MTP
from workloads.text import paragraphs, seeded

CLOCK = MonotonicClock()
CORPUS_CHARS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """A checked command line."""

    options: CheckOptions
    base_url: str | None
    api_key: str | None
    headers: Sequence[str]
    result_dir: Path
    report_dir: Path
    dry_run: bool
    as_json: bool
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    other: OtherServer | None = None


async def run_checks(request: CheckRequest) -> int:
    """Carry the checks out, from the first line on stderr to the last on stdout; returns the exit code."""
    options = request.options
    access = parse_access(request.api_key, request.headers, options.retries, options.metrics_urls)
    if request.dry_run:
        return _dry_run(request)
    if request.options.baseline is not None:
        refuse_unreadable(Path(request.options.baseline))
    with announced(request.base_url, request.environment) as choice, disk_trouble_is_a_message():
        run, judgements = await carry_out(request, choice, access)
        return conclude(run, judgements, request.report_dir, as_json=request.as_json)


async def carry_out(
    request: CheckRequest, choice: EndpointChoice, access: Access, *, silent: bool = False
) -> tuple[RunFolder, tuple[Judgement, ...]]:
    """Ask and judge in a new run folder; `silent` leaves out what is told on the way."""
    info, material = await prepare(choice, access, request.options)
    run_info = run_info_of(request, info)
    with RunFolder.create(request.result_dir, run_info) as run:
        setting = make_setting(request.options, info, replace(material, seed=own_seed(run_info)))
        if not silent:
            tell_checks_preset(request.options.preset, request.options.checks, info)
        targets = targets_of(choice, access, info, request.options)
        return run, await _ask_all(request, run, setting, targets, silent=silent)


def refuse_unreadable(baseline: Path) -> None:
    """A usage error, before anything is sent, for a folder that is no run."""
    try:
        prompt_seed(baseline)
    except StoreError as error:
        raise click.UsageError(f"--baseline: {error}") from None


def own_seed(info: RunInfo) -> str:
    """What the prompts of a run are made from: no two runs send the same ones."""
    return f"{info.seed}/{info.run_id}"


def prompt_seed(path: Path) -> str:
    """What the prompts of a run were made from that repeats its baseline's, if it had one."""
    with RunFolder.open(path) as run:
        earlier = run.info.options.get("baseline")
        return prompt_seed(Path(earlier)) if isinstance(earlier, str) else own_seed(run.info)


def _dry_run(request: CheckRequest) -> int:
    """Print the target and the cost for an endpoint of which nothing is known; nothing is started or sent."""
    options = request.options
    click.echo(planned_endpoint(request.base_url, request.environment), err=True)
    setting, _ = unasked_setting(options)
    for name in askable(options):
        click.echo(cost_line(CHECKS[name], first_round(CHECKS[name], setting, Capabilities()), None))
    return Exit.PASS


def askable(options: CheckOptions) -> tuple[str, ...]:
    """The chosen checks whose steps are allowed."""
    return tuple(name for name in options.checks if options.exclusive_server or not CHECKS[name].disturbs)


def unasked_setting(options: CheckOptions) -> tuple[CheckSetting, Counting]:
    """The setting for an endpoint of which nothing is known, and how its prompts are sized."""
    counting = by_tokenizer_file(options.tokenizer) if options.tokenizer is not None else by_characters()
    setting = CheckSetting(
        budget=options.check_budget,
        material=Material(seed=options.seed, count=counting.count),
        seed=options.seed,
        engine=None,
        endpoint_type="chat",
        exclusive=options.exclusive_server,
        context_tokens=options.context,
        compared=options.other_url is not None,
    )
    return setting, counting


async def prepare(choice: EndpointChoice, access: Access, options: CheckOptions) -> tuple[TargetInfo, Material]:
    """Identify the server, settle the model, and get ordinary text in the server's own token ids."""
    asked = options.model if options.model is not None else ""
    async with Client(make_target(choice, access, asked, "chat", timeouts_of(options)), CLOCK) as client:
        discovery, model = await identify(client, options.model)
        counting = await counting_of(client, options)
        ids = await tokenize(client, paragraphs(seeded(options.seed, "corpus"), CORPUS_CHARS))
    info = describe(choice, discovery, model, options.endpoint_type)
    return info, Material(
        seed=options.seed,
        count=counting.count,
        token_ids=ids if ids is not None and enough_ids(ids) else None,
        found=found_texts() if MTP in options.checks else {},
    )


async def counting_of(client: Client, options: CheckOptions) -> Counting:
    """How prompts are sized."""
    return by_tokenizer_file(options.tokenizer) if options.tokenizer is not None else await by_server(client)


def timeouts_of(options: CheckOptions) -> Timeouts:
    """How long the options let us wait."""
    return Timeouts(
        connect_s=options.connect_timeout_s,
        first_byte_s=options.first_byte_timeout_s,
        stall_s=options.stall_timeout_s,
        total_s=options.request_timeout_s,
    )


def targets_of(choice: EndpointChoice, access: Access, info: TargetInfo, options: CheckOptions) -> tuple[Target, ...]:
    """One for each route that may be asked, the preferred one first."""
    routes = ("completions", "chat") if options.endpoint_type == "auto" else (options.endpoint_type,)
    timeouts = timeouts_of(options)
    return tuple(make_target(choice, access, info.model, route, timeouts, info.engine) for route in routes)


def make_setting(options: CheckOptions, info: TargetInfo, material: Material) -> CheckSetting:
    """What all checks of a run have in common; its deadline counts from now."""
    deadline_ns = None
    if options.max_minutes is not None:
        deadline_ns = CLOCK.now_ns() + round(options.max_minutes * 60 * NS_PER_S)
    return CheckSetting(
        budget=options.check_budget,
        material=material,
        seed=options.seed,
        engine=info.engine,
        endpoint_type="completions",
        sampled=sampled_fields(options.preset),
        extra_body=options.extra_body,
        exclusive=options.exclusive_server,
        max_model_len=info.max_model_len,
        context_tokens=options.context,
        compared=options.other_url is not None,
        deadline_ns=deadline_ns,
    )


def run_info_of(request: CheckRequest, info: TargetInfo, command: str = "check") -> RunInfo:
    """The opening record of a run that asks checks."""
    now = CLOCK.utc_now()
    options = request.options
    name = options.checks[0] if command == "check" and len(options.checks) == 1 else command
    return RunInfo(
        schema_version=SCHEMA_VERSION,
        run_id=new_run_id(now, name, info.model, secrets.token_hex(3)),
        command=command,
        argv=redact_argv(request.argv),
        started_utc=now.isoformat(),
        clock=clock_facts(CLOCK),
        versions=versions(),
        host=host_facts(),
        target=info,
        seed=options.seed,
        options=options.as_json(),
        notes=options.notes,
    )


async def _ask_all(
    request: CheckRequest, run: RunFolder, setting: CheckSetting, targets: Sequence[Target], *, silent: bool
) -> tuple[Judgement, ...]:
    """Every check in turn; verdicts.json is written after each, so that an interrupted run has those that were done."""
    progress = CellProgress(round_of, silent=silent)
    judgements: list[Judgement] = []
    try:
        async with answering(run, setting, targets, progress) as (client, setting, known):
            if not silent:
                _announce(request.options, setting, known, measured_rates(run))
            for name in request.options.checks:
                judgements.append(await ask_check(name, request, setting, run, client, progress))
                write_verdicts(run, judgements)
    except asyncio.CancelledError:
        progress.close()
        click.echo(f"interrupted; judge what was asked with: ling-bench judge {run.path}", err=True)
        raise
    return tuple(judgements)


@asynccontextmanager
async def answering(
    run: RunFolder, setting: CheckSetting, targets: Sequence[Target], progress: CellProgress
) -> AsyncIterator[tuple[Client, CheckSetting, Capabilities]]:
    """A client of the first route that answers the capability round; NothingMeasured if none does."""
    for index, target in enumerate(targets):
        async with Client(target, CLOCK) as client:
            on_route = replace(setting, endpoint_type=target.endpoint_type)
            known = await find_capabilities(on_route, run, client, CLOCK, progress, round_index=index)
            if known.answers:
                await keep_probe(run, client)
                yield client, on_route, known
                return
    raise NothingMeasured(f"no route for text answered; what came is in {run.path}")


def _announce(options: CheckOptions, setting: CheckSetting, known: Capabilities, rates: Rates) -> None:
    """What was found and what the first round of each check will cost."""
    click.echo(f"found: {known.describe()}", err=True)
    for name in askable(options):
        click.echo(cost_line(CHECKS[name], first_round(CHECKS[name], setting, known), rates), err=True)
    if options.max_tokens_total is not None or options.max_minutes is not None:
        caps = [
            *([f"{options.max_tokens_total:,} tokens"] if options.max_tokens_total is not None else []),
            *([f"{options.max_minutes:g} minutes"] if options.max_minutes is not None else []),
        ]
        click.echo(f"      capped at {' and '.join(caps)}", err=True)


async def ask_check(
    name: str, request: CheckRequest, setting: CheckSetting, run: RunFolder, client: Client, progress: CellProgress
) -> Judgement:
    """One check to its verdict; a bug in it becomes a kept traceback."""
    check = CHECKS[name]
    if check.repeats_baseline and request.options.baseline is not None:
        seed = prompt_seed(Path(request.options.baseline))
        setting = replace(setting, material=replace(setting.material, seed=seed))
    if name not in askable(request.options):
        verdict = not_run(check, "its steps disturb others: it runs only with --exclusive-server")
        return Judgement(check=name, verdict=verdict)
    if check.compares_other and request.other is not None:
        await ask_other(request.other, check, setting, run, CLOCK, timeouts_of(request.options), progress)
    try:
        async with _on_its_route(check, setting, client) as (client, setting):
            return Judgement(check=name, verdict=await run_check(check, setting, run, client, CLOCK, progress))
    except StoreError:
        raise
    except Exception:  # a bug of one check must neither stop the others nor lose what was asked
        return crashed(run, name)


@asynccontextmanager
async def _on_its_route(
    check: Check, setting: CheckSetting, client: Client
) -> AsyncIterator[tuple[Client, CheckSetting]]:
    """The client itself, or one of the same server for the only route that a check can ask on."""
    own = on_route(check, setting)
    if own.endpoint_type == setting.endpoint_type:
        yield client, setting
        return
    route: EndpointType = "chat" if own.endpoint_type == "chat" else "completions"
    async with Client(replace(client.target, endpoint_type=route), CLOCK) as other:
        yield other, own
