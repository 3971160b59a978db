"""The check's entry in the registry, and how its plan is sized."""

from __future__ import annotations

from collections.abc import Mapping

from harness.checks.check import Check, CheckBudget, PlanRequest
from harness.checks.overload.judge import judge
from workloads.overload import NAME, OverloadOptions, overload
from workloads.waves import Waves

BURSTS: Mapping[str, tuple[int, ...]] = {"small": (32, 128), "normal": (128, 512), "thorough": (256, 1024)}
CODEWORD_DIGITS = 4
CHAT_CODEWORD_DIGITS = 10


def plan(request: PlanRequest) -> Waves:
    """The plan of a round; one that confirms repeats it on fresh content."""
    known = request.capabilities
    chat = request.endpoint_type == "chat"
    return overload(
        request.material,
        OverloadOptions(
            name=f"r{request.round_index}",
            bursts=BURSTS[request.budget.name],
            chat=chat,
            digits=CHAT_CODEWORD_DIGITS if chat else CODEWORD_DIGITS,
            salt=known.salt is True,
            bypass=known.bypass is True,
            fields=request.logprob_fields,
        ),
    )


def width(budget: CheckBudget) -> int:
    """The biggest burst."""
    return max(BURSTS[budget.name])


OVERLOAD = Check(
    name=NAME,
    question="Does the server refuse clearly what is too much, lose nothing, and answer as before afterwards?",
    disturbs=True,
    plan=plan,
    judge=judge,
    width=width,
)
