"""The check's entry in the registry, and how its plan is sized."""

from __future__ import annotations

from typing import Any

from harness.checks.check import Check, PlanRequest
from harness.checks.spec_parity.judge import judge
from workloads.plan import Ask, Generator, Observation
from workloads.sequence import Sequence
from workloads.spec_parity import NAME, VERSION, SpecParityOptions, spec_parity

WIDTH = 4


def plan(request: PlanRequest) -> Generator[Any]:
    """The plan of a round: the budget's prompts, and as many answers at temperature 1; nothing without token ids."""
    if not request.material.exact:
        return Sequence(name=NAME, version=VERSION, steps=(), parameters={"why": "no token ids"})
    prompts = request.budget.prompts if request.follow_up is None else request.follow_up.count
    return spec_parity(
        request.material,
        SpecParityOptions(
            name=f"r{request.round_index}",
            prompts=prompts,
            rescore=not request.elsewhere,
            sampled=2 * prompts,
            width=WIDTH,
            salt=request.capabilities.salt is True,
            bypass=request.capabilities.bypass is True,
            fields=request.logprob_fields,
        ),
    )


def imagined(ask: Ask) -> Observation:
    """A healthy answer of as many tokens as were asked for."""
    return Observation(key=ask.key, outcome="ok", token_ids=tuple(range(ask.max_tokens)))


SPEC_PARITY = Check(
    name=NAME,
    question="Are answers made with drafts those that the model gives without?",
    disturbs=False,
    plan=plan,
    judge=judge,
    concurrency=WIDTH,
    imagine=imagined,
    compares_other=True,
)
