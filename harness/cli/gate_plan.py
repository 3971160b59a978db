"""The phases of a gate and what they cost, known before they are asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import click

from harness.checks.check import PROMPTS_OF_BUDGET, CheckBudget
from harness.checks.history import Capabilities
from harness.checks.registry import CHECKS
from harness.cli.budget import SweepPlan
from harness.cli.check_options import CheckOptions
from harness.cli.counting import Counting
from harness.cli.estimate import Rates
from harness.cli.grid import plan_grid
from harness.cli.options import SweepOptions
from harness.drive.checking import CheckSetting, first_round, on_route
from harness.gate.objectives import cell_of
from harness.gate.order import LAST, in_order
from harness.gate.profile import Objective, Profile
from workloads import plan_cost
from workloads.pulse import PulseOptions, pulse

DEFAULT_LEVELS = (8,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One check or one objective, by its name; plans: the cells of an objective, None for a check."""

    name: str
    plans: tuple[SweepPlan, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Requests and tokens of one phase; a check's are those of its first round."""

    name: str
    requests: int
    prompt_tokens: int
    output_tokens: int
    note: str = ""


def phases_of(profile: Profile, options: CheckOptions, counting: Counting, *, drafts: bool = True) -> list[Phase]:
    """In the order in which they are asked: checks, objectives, and what hurts most at the end.

    drafts: False for a server that was not seen to draft.
    """
    objectives = [
        Phase(name=each.name, plans=plan_objective(each, profile, options, counting)) for each in profile.objectives
    ]
    last = [Phase(name=name) for name in options.checks if name in LAST]
    return [*(Phase(name=name) for name in in_order(options.checks, drafts=drafts)), *objectives, *last]


def plan_objective(
    objective: Objective, profile: Profile, options: CheckOptions, counting: Counting
) -> tuple[SweepPlan, ...]:
    """The cells of an objective, named after it; UsageError where its settings make no sense together.

    What the run's cap leaves for them is known when they are asked.
    """
    given: dict[str, object] = {
        "dataset_name": "agent",
        "concurrency": (1,) if "request_rates" in objective.sweep else DEFAULT_LEVELS,
        "seed": options.seed,
        "goodput": profile.goodput,
        "sampling": {"temperature": 0.0},
        "tokenizer": options.tokenizer,
        **objective.sweep,
    }
    try:
        plans = plan_grid(SweepOptions.from_json(given), counting)
    except (ValueError, click.UsageError) as error:
        words = error.message if isinstance(error, click.UsageError) else str(error)
        raise click.UsageError(f"objective {objective.name}: {words}") from None
    return tuple(
        replace(plan, cells=tuple(replace(spec, cell=cell_of(objective, spec.cell)) for spec in plan.cells))
        for plan in plans
    )


def budget_of(name: str, profile: Profile, setting: CheckSetting) -> CheckBudget:
    """What a check may ask under a profile."""
    budget = profile.budget_of(name)
    return replace(setting.budget, name=budget, prompts=PROMPTS_OF_BUDGET[budget])


def costs(
    phases: Sequence[Phase], profile: Profile, setting: CheckSetting, known: Capabilities, askable: Sequence[str]
) -> list[Cost]:
    """What each phase costs, and the heartbeat between them."""
    found = []
    for phase in phases:
        if phase.plans is not None:
            found.append(_objective_cost(phase.name, phase.plans))
        elif phase.name not in askable:
            found.append(_nothing(phase.name))
        else:
            found.append(_check_cost(phase.name, profile, setting, known))
    if profile.heartbeat:
        one = plan_cost(pulse(setting.material, PulseOptions(phase="before", salt=known.salt is not False)))
        times = 1 + len(phases)
        found.append(
            Cost(
                name="heartbeat between phases",
                requests=times * one.requests,
                prompt_tokens=times * one.prompt_tokens,
                output_tokens=times * one.output_tokens,
            )
        )
    return found


def _nothing(name: str) -> Cost:
    return Cost(name=name, requests=0, prompt_tokens=0, output_tokens=0, note="only with --exclusive-server")


def _check_cost(name: str, profile: Profile, setting: CheckSetting, known: Capabilities) -> Cost:
    own = on_route(CHECKS[name], replace(setting, budget=budget_of(name, profile, setting)))
    cost = plan_cost(first_round(CHECKS[name], own, known), imagine=CHECKS[name].imagine)
    return Cost(
        name=name,
        requests=cost.requests + cost.warmup_requests,
        prompt_tokens=cost.prompt_tokens,
        output_tokens=cost.output_tokens,
        note=f"budget {own.budget.name}",
    )


def _objective_cost(name: str, plans: Sequence[SweepPlan]) -> Cost:
    endless = not all(plan.cost.complete for plan in plans)
    return Cost(
        name=f"objective {name}",
        requests=sum(len(plan.cells) * (plan.cost.requests + plan.cost.warmup_requests) for plan in plans),
        prompt_tokens=sum(len(plan.cells) * plan.cost.prompt_tokens for plan in plans),
        output_tokens=sum(len(plan.cells) * plan.cost.output_tokens for plan in plans),
        note="until its duration is over; a sample" if endless else "",
    )


def cost_table(found: Sequence[Cost], rates: Rates | None, cap: int | None, minutes: float | None) -> str:
    """The cost in words: a line each, and the sum."""
    width = max((len(cost.name) for cost in found), default=0)
    lines = [
        f"  {cost.name:<{width}}  {cost.requests:>6,} requests  {cost.prompt_tokens:>10,} prompt and at most"
        f" {cost.output_tokens:>8,} output tokens{'  (' + cost.note + ')' if cost.note else ''}"
        for cost in found
    ]
    prompt, output = sum(cost.prompt_tokens for cost in found), sum(cost.output_tokens for cost in found)
    total = f"about {sum(cost.requests for cost in found):,} requests and at most {prompt + output:,} tokens in all"
    needed = None if rates is None else rates.minutes(prompt, output)
    if needed is not None:
        total += f", {max(0.1, needed):.1f} minutes one by one without any help of the cache"
    lines.append(f"cost: {total}; an alarm asks for another round")
    lines += _caps(prompt + output, cap, minutes)
    return "\n".join(lines)


def _caps(total: int, cap: int | None, minutes: float | None) -> list[str]:
    lines = []
    if cap is not None:
        lines.append(f"      capped at {cap:,} tokens" + _short(total > cap))
    if minutes is not None:
        lines.append(f"      nothing new is asked after {minutes:g} minutes")
    return lines


def _short(short: bool) -> str:
    return ", which is less: what comes last stays undecided" if short else ""


def settings_of(options: Mapping[str, object]) -> CheckOptions:
    """The options that a run of a gate keeps, as they were."""
    known = {name: options[name] for name in CheckOptions.__slots__ if name in options}
    for name in ("checks", "require"):
        value = known.get(name)
        if isinstance(value, list | tuple):
            known[name] = tuple(value)
    return CheckOptions(**known)  # type: ignore[arg-type]
