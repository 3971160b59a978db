"""Checks carried out: capabilities first, then each check's rounds until its judge wants or may ask nothing more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.checks.check import Check, CheckBudget, PlanRequest
from harness.checks.history import Capabilities
from harness.checks.verdict import FollowUp, Verdict
from harness.clock import NS_PER_S, Clock
from harness.drive.check_history import load_capabilities, load_history, other_name
from harness.drive.ports import Sender
from harness.drive.progress import NO_PROGRESS, Progress
from harness.drive.rounds import run_round
from harness.drive.spec import CellSpec
from harness.records import Outcome
from harness.store import RunFolder, read_cell
from workloads.capabilities import NAME as CAPABILITIES
from workloads.capabilities import capabilities, logprob_fields
from workloads.material import Material
from workloads.plan import Generator, Json

MOST_ROUNDS = 3
SAMPLING: Mapping[str, Json] = {"temperature": 0}
# Checks that judge what users get rather than bits: a preset's sampling is theirs; all others have to be greedy.
SAMPLED = frozenset({"mtp", "tools"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSetting:
    """What all checks of a run have in common.

    sampled: by endpoint type, the sampling of the checks of SAMPLED, empty for greedy ones too. extra_body: further
    body fields of every request.
    exclusive: the server is ours alone. max_model_len: None if it is not known. context_tokens: the context that is
    wanted, None if none was named. deadline_ns: on the clock of the run, when nothing new may be asked any more; None
    for no such moment. compared: another server was named to compare with.
    """

    budget: CheckBudget
    material: Material
    seed: int
    engine: str | None
    endpoint_type: str
    sampled: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    extra_body: Mapping[str, Json] = field(default_factory=dict)
    exclusive: bool = False
    max_model_len: int | None = None
    context_tokens: int | None = None
    deadline_ns: int | None = None
    compared: bool = False


async def find_capabilities(
    setting: CheckSetting,
    run: RunFolder,
    client: Sender,
    clock: Clock,
    progress: Progress = NO_PROGRESS,
    *,
    round_index: int = 0,
) -> Capabilities:
    """Ask the capability round, recorded as any other, and read it; a later round replaces an earlier one."""
    generator = capabilities(
        setting.material,
        endpoint_type=setting.endpoint_type,
        flush=setting.exclusive,
        longest_prompt_tokens=setting.max_model_len,
    )
    spec = _cell(setting, CAPABILITIES, round_index, setting.budget.max_tokens, clock)
    if not run.is_finished(spec.cell):
        await run_round(run, replace(spec, concurrency=1), generator, client, clock, progress)
    return load_capabilities(run)


async def run_check(
    check: Check, setting: CheckSetting, run: RunFolder, client: Sender, clock: Clock, progress: Progress = NO_PROGRESS
) -> Verdict:
    """Ask and judge in rounds: what a judge wants asked next is planned by the check itself, on fresh prompts.

    It ends with a verdict that wants nothing more, after MOST_ROUNDS, or when tokens or time are used up; then what the
    last verdict would ask for stays in it.
    """
    known = load_capabilities(run)
    follow_up: FollowUp | None = None
    for index in range(MOST_ROUNDS):
        left = tokens_left(setting.budget, run)
        request = plan_request(setting, known, index, follow_up, left)
        spec = replace(_cell(setting, check.name, index, left, clock), concurrency=check.concurrency_at(setting.budget))
        parent = None if follow_up is None else f"{check.name}: {follow_up.why}"
        if not run.is_finished(spec.cell):  # a resumed run keeps what was asked
            await run_round(run, spec, check.plan(request), client, clock, progress, parent_verdict=parent)
        verdict = check.judge(load_history(run, check.name))
        follow_up = verdict.follow_up
        if follow_up is None or _used_up(setting, run, clock):
            break
    return verdict


async def ask_elsewhere(
    check: Check, setting: CheckSetting, run: RunFolder, client: Sender, clock: Clock, progress: Progress = NO_PROGRESS
) -> None:
    """Ask another server what this one's first round will be compared with; recorded as "<check>-other-r0"."""
    left = tokens_left(setting.budget, run)
    request = replace(plan_request(setting, load_capabilities(run), tokens_left=left), elsewhere=True)
    cell = _cell(setting, other_name(check.name), 0, left, clock)
    spec = replace(cell, concurrency=check.concurrency_at(setting.budget))
    if not run.is_finished(spec.cell):
        await run_round(run, spec, check.plan(request), client, clock, progress)


def plan_request(
    setting: CheckSetting,
    known: Capabilities,
    round_index: int = 0,
    follow_up: FollowUp | None = None,
    tokens_left: int | None = None,
) -> PlanRequest:
    """What a check's plan is made from."""
    count = known.logprobs if known.logprobs is not None else 0
    takes_ids = known.token_id_prompts and setting.endpoint_type == "completions"
    return PlanRequest(
        budget=replace(setting.budget, max_tokens=tokens_left),
        capabilities=known,
        material=setting.material if takes_ids else replace(setting.material, token_ids=None),
        seed=setting.seed,
        round_index=round_index,
        follow_up=follow_up,
        endpoint_type=setting.endpoint_type,
        logprob_fields=logprob_fields(setting.endpoint_type, count),
        exclusive=setting.exclusive,
        max_model_len=setting.max_model_len,
        compared=setting.compared,
        context_tokens=setting.context_tokens,
    )


def first_round(check: Check, setting: CheckSetting, known: Capabilities) -> Generator[Any]:
    """The plan of a check's first round, for its cost."""
    return check.plan(plan_request(on_route(check, setting), known, tokens_left=setting.budget.max_tokens))


def on_route(check: Check, setting: CheckSetting) -> CheckSetting:
    """The setting for a check that can ask on one route alone."""
    return setting if check.route is None else replace(setting, endpoint_type=check.route)


def _cell(setting: CheckSetting, name: str, index: int, tokens_left: int | None, clock: Clock) -> CellSpec:
    """A cell whose prompts carry no nonce (their content is new anyway) and whose raw answers are all kept."""
    left_ns = None if setting.deadline_ns is None else max(NS_PER_S // 1000, setting.deadline_ns - clock.now_ns())
    return CellSpec(
        cell=f"{name}-r{index}",
        workload=name,
        concurrency=1,
        seed=setting.seed,
        cache_mode="keep",
        round_index=index,
        duration_ns=left_ns,
        spread_start_ns=0,
        max_tokens=tokens_left,
        sampling=sampling_of(setting, name),
        raw_every=1,
        engine=setting.engine,
    )


def sampling_of(setting: CheckSetting, name: str) -> dict[str, Json]:
    """Body fields of a check's requests: greedy, or the preset's sampling for those of SAMPLED, and the run's own."""
    chosen = setting.sampled.get(setting.endpoint_type, SAMPLING) if name in SAMPLED else SAMPLING
    return {**chosen, **setting.extra_body}


def _used_up(setting: CheckSetting, run: RunFolder, clock: Clock) -> bool:
    left = tokens_left(setting.budget, run)
    late = setting.deadline_ns is not None and clock.now_ns() >= setting.deadline_ns
    return late or (left is not None and left == 0)


def tokens_left(budget: CheckBudget, run: RunFolder) -> int | None:
    """What the run's limit leaves after everything it asked; None without a limit."""
    if budget.max_tokens is None:
        return None
    spent = sum(_tokens_spent(run, cell) for cell in run.cells())
    return max(0, budget.max_tokens - spent)


def _tokens_spent(run: RunFolder, cell: str) -> int:
    """Prompt and output tokens as the server counted them; a request whose count is not known costs its limit."""
    spent = 0
    for record in read_cell(run, cell).records:
        usage = record.complete.usage
        if usage is not None and usage.prompt_tokens is not None and usage.completion_tokens is not None:
            spent += usage.prompt_tokens + usage.completion_tokens
        elif record.complete.outcome is not Outcome.REFUSED:
            expected = record.invoke.expected_prompt_tokens
            spent += expected if expected is not None else 0
    return spent
