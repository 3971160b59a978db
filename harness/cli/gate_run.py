"""What `gate` does once its options are settled: ask phase by phase, feel the pulse in between, decide."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import click

from harness.checks.history import Capabilities
from harness.checks.judgement import Judgement
from harness.checks.registry import CHECKS
from harness.cli.check_run import (
    CLOCK,
    CheckRequest,
    answering,
    ask_check,
    askable,
    counting_of,
    make_setting,
    own_seed,
    prepare,
    refuse_unreadable,
    run_info_of,
    targets_of,
    timeouts_of,
    unasked_setting,
)
from harness.cli.counting import Counting
from harness.cli.disk import disk_trouble_is_a_message
from harness.cli.estimate import measured_rates
from harness.cli.exits import Exit, NothingMeasured
from harness.cli.gate_output import conclude_gate, not_asked, stopped_by
from harness.cli.gate_plan import Phase, budget_of, cost_table, costs, phases_of, settings_of
from harness.cli.gate_profiles import KEPT, kept_profile
from harness.cli.grid import cells_in_order
from harness.cli.other_server import parse_other
from harness.cli.presets import tell_checks_preset
from harness.cli.progress import CellProgress, round_of
from harness.cli.target import EMBEDDED, Access, EndpointChoice, announced, make_target, parse_access, planned_endpoint
from harness.drive import run_round
from harness.drive.check_history import load_history, rounds_of
from harness.drive.checking import SAMPLING, CheckSetting, plan_request, tokens_left
from harness.drive.judging import not_run, write_verdicts
from harness.drive.spec import CellSpec
from harness.endpoint.client import Client
from harness.gate.order import PULSE, is_asked
from harness.gate.profile import Objective, Profile
from harness.gate.pulse import judge_pulse, wants_another
from harness.records import RunInfo, TargetInfo
from harness.store import RunFolder
from workloads.heartbeat import BEFORE
from workloads.material import Material
from workloads.plan import Json
from workloads.pulse import NAME as PULSE_CELL
from workloads.pulse import PulseOptions, pulse

RESERVE_TOKENS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """A checked command line; profile and the check's options are placeholders when a run is resumed."""

    check: CheckRequest
    profile: Profile
    profile_text: str
    resume: Path | None
    out: Path | None
    argv: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gate:
    """What every phase needs."""

    request: GateRequest
    run: RunFolder
    setting: CheckSetting
    known: Capabilities
    client: Client
    choice: EndpointChoice
    access: Access
    progress: CellProgress

    @property
    def profile(self) -> Profile:
        return self.request.profile


async def run_gate(request: GateRequest) -> int:
    """Carry a gate out, from the first line on stderr to the last on stdout; returns the exit code."""
    own = request.check.options
    access = parse_access(request.check.api_key, request.check.headers, own.retries, own.metrics_urls)
    if request.resume is not None:
        return await _resume(request, request.resume, access)
    if request.check.dry_run:
        return _dry_run(request)
    if request.check.options.baseline is not None:
        refuse_unreadable(Path(request.check.options.baseline))
    with announced(request.check.base_url, request.environment) as choice, disk_trouble_is_a_message():
        info, material = await prepare(choice, access, request.check.options)
        with RunFolder.create(request.check.result_dir, _run_info(request, info)) as run:
            (run.path / KEPT).write_text(request.profile_text, encoding="utf-8")
            return await _carry_out(request, run, info, replace(material, seed=own_seed(run.info)), choice, access)


async def _resume(request: GateRequest, folder: Path, access: Access) -> int:
    """Complete a run: finished rounds and cells stay, the others are asked again with other prompts."""
    with disk_trouble_is_a_message(), RunFolder.open(folder) as run:
        was = run.info.target
        if run.info.command != "gate":
            raise click.UsageError(f"{folder} is no run of a gate but of ling-bench {run.info.command}")
        request = _as_it_was(request, run)
        asked = request.check.base_url
        base_url = asked if asked is not None or was.chosen_by == EMBEDDED else was.base_url
        with announced(base_url, {} if was.chosen_by == EMBEDDED else request.environment) as choice:
            info, material = await prepare(choice, access, request.check.options)
            if (info.engine, info.model) != (was.engine, was.model):
                raise click.UsageError(
                    f"{folder} was asked of {was.model} ({was.engine}), this is {info.model} ({info.engine})"
                )
            begun = [cell for cell in run.cells() if not run.is_finished(cell)]
            seed = f"{own_seed(run.info)}/again-{len(run.aborted_cells()) + len(begun)}"
            return await _carry_out(request, run, info, replace(material, seed=seed), choice, access)


def _as_it_was(request: GateRequest, run: RunFolder) -> GateRequest:
    """The request with the plan that a run has; what opens the doors was typed anew."""
    profile = kept_profile(run)
    options = settings_of(run.info.options)
    other = request.check.other
    if other is None and options.other_url is not None:
        other = parse_other(options.other_url, options.other_model, None)
    return replace(request, profile=profile, check=replace(request.check, options=options, other=other))


def _run_info(request: GateRequest, info: TargetInfo) -> RunInfo:
    profile = request.profile
    names = ("max_tokens_total", "max_minutes", "deterministic", "expect_acceptance", "fail_fast", "require")
    opening = run_info_of(request.check, info, command="gate")
    return replace(
        opening,
        options={
            **opening.options,
            "profile": profile.name,
            "typed": {name: getattr(profile, name) for name in names},
            "metric_percentiles": list(profile.percentiles),
        },
        goodput=profile.goodput,
    )


def _dry_run(request: GateRequest) -> int:
    """Print the target and the cost for an endpoint of which nothing is known; nothing is started or sent."""
    options = request.check.options
    click.echo(planned_endpoint(request.check.base_url, request.environment), err=True)
    setting, counting = unasked_setting(options)
    phases = phases_of(request.profile, options, counting)
    found = costs(phases, request.profile, setting, Capabilities(), askable(options))
    click.echo(cost_table(found, None, options.max_tokens_total, options.max_minutes))
    return Exit.PASS


async def _carry_out(
    request: GateRequest,
    run: RunFolder,
    info: TargetInfo,
    material: Material,
    choice: EndpointChoice,
    access: Access,
) -> int:
    options = request.check.options
    setting = make_setting(options, info, material)
    tell_checks_preset(options.preset, options.checks, info)
    progress = CellProgress(_name_of)
    try:
        async with answering(run, setting, targets_of(choice, access, info, options), progress) as found:
            client, setting, known = found
            gate = _Gate(
                request=request, run=run, setting=setting, known=known, client=client, choice=choice, access=access,
                progress=progress,
            )  # fmt: skip
            counting = await counting_of(client, options)
            judgements = await _all_phases(gate, counting)
    except asyncio.CancelledError:
        progress.close()
        click.echo(
            f"interrupted; complete it with: ling-bench gate --resume {run.path}, or decide on what was asked with:"
            f" ling-bench judge {run.path}",
            err=True,
        )
        raise
    return conclude_gate(
        run, request.profile, judgements, request.check.report_dir, as_json=request.check.as_json, out=request.out
    )


def _name_of(spec: CellSpec) -> str:
    return spec.cell if spec.cell.startswith("objective-") else round_of(spec)


async def _all_phases(gate: _Gate, counting: Counting) -> tuple[Judgement, ...]:
    """Every phase with a pulse after it; verdicts.json is written after each."""
    options = gate.request.check.options
    phases = phases_of(gate.profile, options, counting, drafts=gate.known.speculation is not False)
    click.echo(f"found: {gate.known.describe()}", err=True)
    click.echo(
        cost_table(
            costs(phases, gate.profile, gate.setting, gate.known, askable(options)),
            measured_rates(gate.run),
            options.max_tokens_total,
            options.max_minutes,
        ),
        err=True,
    )
    judgements: list[Judgement] = []
    stopped: str | None = None
    await _pulse(gate, BEFORE)
    for phase in phases:
        if is_asked(phase.name, stopped):
            judgements += await _phase(gate, phase, counting)
            await _pulse(gate, f"after {phase.name}")
            write_verdicts(gate.run, [*judgements, *_pulse_judgement(gate)])
            if stopped is None:
                stopped = stopped_by(gate.run, gate.profile, [*judgements, *_pulse_judgement(gate)])
        elif phase.plans is None:
            judgements.append(not_asked(phase.name, str(stopped)))
    judgements += await _last_pulse(gate)
    write_verdicts(gate.run, judgements)
    return tuple(judgements)


async def _phase(gate: _Gate, phase: Phase, counting: Counting) -> list[Judgement]:
    """One phase carried out; an objective has its figures, and no verdict until all is decided."""
    if phase.plans is not None:
        await _objective(gate, phase, counting)
        return []
    setting = replace(gate.setting, budget=budget_of(phase.name, gate.profile, gate.setting))
    try:
        judgement = await ask_check(phase.name, gate.request.check, setting, gate.run, gate.client, gate.progress)
    except NothingMeasured as error:  # another server that is gone spoils this phase alone
        gone = not_run(CHECKS[phase.name], f"the other server: {error.message}")
        judgement = Judgement(check=phase.name, verdict=gone)
    click.echo(f"{phase.name}: {_said(judgement)}", err=True)
    return [judgement]


def _said(judgement: Judgement) -> str:
    verdict = judgement.verdict
    return "broken" if verdict is None else f"{verdict.status.value}: {verdict.reason}"


async def _objective(gate: _Gate, phase: Phase, counting: Counting) -> None:
    """The cells of an objective that are not finished, until the time is over."""
    assert phase.plans is not None
    own = next(each for each in gate.profile.objectives if each.name == phase.name)
    route = str(own.sweep.get("endpoint_type", "chat"))
    model = gate.run.info.target.model
    target = make_target(gate.choice, gate.access, model, route, timeouts_of(gate.request.check.options))
    count = counting.count if counting.exact else None
    async with Client(target, CLOCK) as client:
        for plan, spec in cells_in_order(phase.plans, 1):
            if gate.run.is_finished(spec.cell) or _late(gate):
                continue
            capped = replace(_within_limits(gate, spec), sampling=_sampled(gate, own, route, spec))
            await run_round(gate.run, capped, plan.generator, client, CLOCK, gate.progress, count_tokens=count)


def _sampled(gate: _Gate, objective: Objective, route: str, spec: CellSpec) -> dict[str, Json]:
    """Body fields of an objective's requests: a preset's sampling wherever the profile names none of its own."""
    own = objective.sweep.get("sampling")
    named = own if isinstance(own, Mapping) else {}
    preset = {name: value for name, value in gate.setting.sampled.get(route, {}).items() if name not in named}
    return {**spec.sampling, **preset, **gate.setting.extra_body}


def _within_limits(gate: _Gate, spec: CellSpec) -> CellSpec:
    """The cell with what is left of the run's tokens and time."""
    spec = replace(spec, max_tokens=tokens_left(gate.setting.budget, gate.run))
    if gate.setting.deadline_ns is None:
        return spec
    left_ns = max(1, gate.setting.deadline_ns - CLOCK.now_ns())
    return replace(spec, duration_ns=left_ns if spec.duration_ns is None else min(left_ns, spec.duration_ns))


# -- the heartbeat between phases


async def _pulse(gate: _Gate, phase: str) -> None:
    """One battery, unless it was asked already or nothing may be asked any more."""
    if not gate.profile.heartbeat or _late(gate):
        return
    asked = {answer.record.invoke.labels.get("phase") for answer in load_history(gate.run, PULSE_CELL).answers}
    cells = [cell for cell in rounds_of(gate.run, PULSE_CELL) if gate.run.is_finished(cell)]
    if phase in asked and len(cells) == len(rounds_of(gate.run, PULSE_CELL)):
        return
    own = replace(gate.setting.material, seed=own_seed(gate.run.info))
    plan = plan_request(replace(gate.setting, material=own), gate.known)
    longest = min(PulseOptions(phase=phase).longest_tokens, _room(gate.setting.max_model_len))
    generator = pulse(
        plan.material,
        PulseOptions(
            phase=phase, longest_tokens=longest, salt=gate.known.salt is True, fields=plan.logprob_fields
        ),
    )  # fmt: skip
    spec = CellSpec(
        cell=f"{PULSE_CELL}-r{len(cells)}", workload=PULSE_CELL, concurrency=1, cache_mode="keep", nonce=None,
        round_index=len(cells), seed=gate.setting.seed, spread_start_ns=0, sampling=SAMPLING, raw_every=1,
        engine=gate.setting.engine,
    )  # fmt: skip
    await run_round(gate.run, spec, generator, gate.client, CLOCK)


def _late(gate: _Gate) -> bool:
    left = tokens_left(gate.setting.budget, gate.run)
    return left == 0 or (gate.setting.deadline_ns is not None and CLOCK.now_ns() >= gate.setting.deadline_ns)


def _room(max_model_len: int | None) -> int:
    return 1 << 30 if max_model_len is None else max(1, max_model_len - RESERVE_TOKENS)


def _pulse_judgement(gate: _Gate) -> list[Judgement]:
    """The verdict on the batteries so far; none where the profile wants none."""
    if not gate.profile.heartbeat:
        return []
    return [Judgement(check=PULSE, verdict=judge_pulse(load_history(gate.run, PULSE_CELL)))]


async def _last_pulse(gate: _Gate) -> list[Judgement]:
    """The verdict, after one more battery where that tells a passing change from a lasting one."""
    found = _pulse_judgement(gate)
    if found and found[0].verdict is not None and wants_another(found[0].verdict):
        await _pulse(gate, "after a pause")
        found = _pulse_judgement(gate)
    return found
