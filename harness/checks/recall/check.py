"""The check's entry in the registry, and how its plan is sized."""

from __future__ import annotations

from collections.abc import Mapping

from harness.checks.check import Check, PlanRequest
from harness.checks.recall.judge import judge
from workloads.control import NO_THINKING
from workloads.phases import Phased
from workloads.plan import Ask, Observation
from workloads.recall import NAME, ROOM_TOKENS, RecallOptions, recall

LONGEST_OF_BUDGET: Mapping[str, int] = {"small": 2048, "normal": 8192, "thorough": 32768}
MOST_FLOOD_TOKENS = 400_000


def plan(request: PlanRequest) -> Phased:
    """The plan of a round: as many documents as the budget has prompts."""
    known, chat = request.capabilities, request.endpoint_type == "chat"
    follow_up = request.follow_up
    floods = request.exclusive and known.flush is not True and known.cache_tokens is not None
    return recall(
        request.material,
        RecallOptions(
            name=f"r{request.round_index}",
            documents=request.budget.prompts if follow_up is None else follow_up.count,
            longest_tokens=longest_tokens(request),
            block_tokens=known.block_tokens,
            chat=chat,
            salt=known.salt is True,
            bypass=known.bypass is True,
            flush=request.exclusive and known.flush is True,
            flood_tokens=known.cache_tokens if floods and (known.cache_tokens or 0) <= MOST_FLOOD_TOKENS else None,
            fields=NO_THINKING if chat else {},
        ),
    )


def longest_tokens(request: PlanRequest) -> int:
    """The context that was asked for, else the budget's, and never more than is served."""
    wanted = request.context_tokens
    wanted = LONGEST_OF_BUDGET.get(request.budget.name, LONGEST_OF_BUDGET["normal"]) if wanted is None else wanted
    served = wanted if request.max_model_len is None else min(wanted, request.max_model_len)
    return max(served, ROOM_TOKENS + 1)


def imagined(ask: Ask) -> Observation:
    """What a model with a perfect memory says."""
    return Observation(key=ask.key, outcome="ok", text=str(ask.labels.get("value", "")))


RECALL = Check(
    name=NAME,
    question="Does what a long text says come back, and from the cache as well as without it?",
    disturbs=False,
    plan=plan,
    judge=judge,
    concurrency=1,
    imagine=imagined,
)
