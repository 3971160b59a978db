"""The check's entry in the registry, and how its plan is sized."""

from __future__ import annotations

from harness.checks.billing.judge import judge
from harness.checks.check import Check, PlanRequest
from workloads.billing import LONGEST_TOKENS, NAME, BillingOptions, billing
from workloads.sequence import Sequence

FEWEST_PROMPTS = 4
PROMPTS_OF_BUDGET_EACH = 4


def plan(request: PlanRequest) -> Sequence:
    """The plan of a round: a quarter of the budget's prompts, each asked four times."""
    follow_up, served = request.follow_up, request.max_model_len
    first = max(FEWEST_PROMPTS, request.budget.prompts // PROMPTS_OF_BUDGET_EACH)
    return billing(
        request.material,
        BillingOptions(
            name=f"r{request.round_index}",
            prompts=first if follow_up is None else follow_up.count,
            longest_tokens=LONGEST_TOKENS if served is None else max(1, min(LONGEST_TOKENS, served // 2)),
        ),
    )


BILLING = Check(
    name=NAME,
    question="Do answers cost what their counts and the prices say, and cached tokens less than others?",
    disturbs=False,
    plan=plan,
    judge=judge,
    concurrency=1,
)
