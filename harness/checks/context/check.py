"""The check's entry in the registry, and how its plan is sized."""

from __future__ import annotations

from harness.checks.check import Check, PlanRequest
from harness.checks.context.judge import judge
from workloads.context import NAME, ContextOptions, context
from workloads.control import NO_THINKING
from workloads.phases import Phased
from workloads.plan import Ask, Observation


def plan(request: PlanRequest) -> Phased:
    """The plan: its length is that of the context, whatever the budget."""
    chat = request.endpoint_type == "chat"
    return context(
        ContextOptions(
            name=f"r{request.round_index}",
            seed=request.material.seed,
            limit=request.max_model_len,
            wanted=request.context_tokens,
            chat=chat,
            fields=NO_THINKING if chat else {},
        )
    )


def imagined(ask: Ask) -> Observation:
    """What a model with a perfect memory says, counted as was planned."""
    told = ask.labels.get("value")
    expected = ask.expected_prompt_tokens
    return Observation(key=ask.key, outcome="ok", prompt_tokens=expected, text=told if isinstance(told, str) else "")


CONTEXT = Check(
    name=NAME,
    question="How long a context is really served, is more refused, and does all of it reach the model?",
    disturbs=False,
    plan=plan,
    judge=judge,
    concurrency=1,
    imagine=imagined,
)
