"""The check's entry in the registry, and how its plan is sized."""

from __future__ import annotations

from harness.checks.check import Check, PlanRequest
from harness.checks.reasoning.judge import judge
from workloads.reasoning import NAME, ReasoningOptions, reasoning
from workloads.sequence import Sequence

FEWEST_QUESTIONS = 4
PROMPTS_PER_QUESTION = 4


def plan(request: PlanRequest) -> Sequence:
    """The plan of a round: every question eight times."""
    follow_up = request.follow_up
    first = max(FEWEST_QUESTIONS, request.budget.prompts // PROMPTS_PER_QUESTION)
    return reasoning(
        ReasoningOptions(
            name=f"r{request.round_index}",
            seed=request.material.seed,
            questions=first if follow_up is None else follow_up.count,
        )
    )


REASONING = Check(
    name=NAME,
    question="Is thinking switched on and off, told apart from the answer, and the same in streams?",
    disturbs=False,
    plan=plan,
    judge=judge,
    concurrency=1,
    route="chat",
)
