"""The check's entry in the registry, and how its plan is sized."""

from __future__ import annotations

from harness.checks.cached_tokens.judge import judge
from harness.checks.cached_tokens.rules import SALTING_ENGINES
from harness.checks.check import Check, PlanRequest
from workloads.cached_tokens import FIRST_RUNG, LONGEST_RUNG, NAME, CachedTokensOptions, cached_tokens, imagined
from workloads.phases import Phased

# Room for the answer and for what a template adds.
RESERVE_TOKENS = 256
# A plan of 120 requests whose prompts grow with its longest one.
PROMPTS_PER_PLAN = 120


def plan(request: PlanRequest) -> Phased:
    """The plan of a round: smaller when it only has to confirm."""
    known = request.capabilities
    sizes = max(4, request.budget.prompts // 4)
    return cached_tokens(
        request.material,
        CachedTokensOptions(
            name=f"r{request.round_index}",
            lengths=sizes if request.follow_up is None else request.follow_up.count,
            boundaries=sizes if request.follow_up is None else 0,
            longest_tokens=_longest(request),
            marks=tuple(mark for mark in (known.block_tokens, known.chunk_tokens) if mark is not None),
            salt=known.salt is not False or known.engine in SALTING_ENGINES,
        ),
    )


def _longest(request: PlanRequest) -> int:
    """The longest prompt that the context, and a share of the token budget, allow."""
    longest = LONGEST_RUNG
    if request.max_model_len is not None:
        longest = min(longest, request.max_model_len - RESERVE_TOKENS)
    if request.budget.max_tokens is not None:
        longest = min(longest, max(FIRST_RUNG, 4 * request.budget.max_tokens // PROMPTS_PER_PLAN))
    return max(FIRST_RUNG // 2, longest)


CACHED_TOKENS = Check(
    name=NAME,
    question="Does the server reuse prompts it has seen, and does it count truthfully what it reuses?",
    disturbs=False,
    plan=plan,
    judge=judge,
    concurrency=1,
    imagine=imagined,
    timed=True,
)
