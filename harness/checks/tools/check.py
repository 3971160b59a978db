"""The check's entry in the registry, and how its plan is sized."""

from __future__ import annotations

from harness.checks.check import Check, PlanRequest
from harness.checks.tools.judge import judge
from workloads.sequence import Sequence
from workloads.tools import NAME, ToolsOptions, tools

FEWEST_CONVERSATIONS = 3
PROMPTS_PER_CONVERSATION = 6


def plan(request: PlanRequest) -> Sequence:
    """The plan of a round: eight kinds of conversation, each asked four times."""
    follow_up = request.follow_up
    first = max(FEWEST_CONVERSATIONS, request.budget.prompts // PROMPTS_PER_CONVERSATION)
    return tools(
        ToolsOptions(
            name=f"r{request.round_index}",
            seed=request.material.seed,
            conversations=first if follow_up is None else follow_up.count,
            salt=request.capabilities.salt is True,
        )
    )


TOOLS = Check(
    name=NAME,
    question="Are tools called when they have to be, with arguments that fit, in every form and from the cache?",
    disturbs=False,
    plan=plan,
    judge=judge,
    concurrency=1,
    route="chat",
)
