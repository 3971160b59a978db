"""The check's entry in the registry, and how its plan is sized."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.checks.check import Check, PlanRequest
from harness.checks.tiers.judge import judge
from workloads.eviction import imagined
from workloads.eviction_shape import SHORTEST_PROMPT, EvictionOptions
from workloads.plan import Generator, Json
from workloads.sequence import Sequence
from workloads.tiers import NAME, VERSION, tiers

RESERVE_TOKENS = 64
BLOCKS = 3
FLOOD_TOKENS = 400_000
# Body fields with which an engine tells from which tier its cached tokens came.
TIER_FIELDS: Mapping[str, Mapping[str, Json]] = {"sglang": {"return_cached_tokens_details": True}}


def plan(request: PlanRequest) -> Generator[Any]:
    """The plan of a round, one that confirms has long tails too; nothing where the server says that it has no tier."""
    known, follow_up = request.capabilities, request.follow_up
    if known.host_tier is False:
        return Sequence(name=NAME, version=VERSION, steps=(), parameters={"why": "the server has no tier behind"})
    own = TIER_FIELDS.get(known.engine, {}) if known.engine is not None else {}
    return tiers(
        request.material,
        EvictionOptions(
            name=f"r{request.round_index}",
            round_index=request.round_index,
            seed=request.seed,
            prompts=request.budget.prompts if follow_up is None else follow_up.count,
            longest_tokens=_longest(request),
            cycles=1,
            salt=known.salt is True,
            bypass=known.bypass is True,
            cache_tokens=known.cache_tokens,
            flood_tokens=FLOOD_TOKENS if request.budget.max_tokens is None else request.budget.max_tokens // 4,
            chunk_tokens=known.chunk_tokens,
            long_tails=follow_up is not None,
            fields={**request.logprob_fields, **own},
        ),
    )


def _longest(request: PlanRequest) -> int:
    block = request.capabilities.block_tokens
    blocks = 0 if block is None else BLOCKS * block + RESERVE_TOKENS
    wanted = max(request.budget.longest_prompt_tokens, SHORTEST_PROMPT, blocks)
    return wanted if request.max_model_len is None else min(wanted, request.max_model_len - RESERVE_TOKENS)


TIERS = Check(
    name=NAME,
    question="Do prompts that left the device come back from another tier, counted and with the same answers?",
    disturbs=True,
    plan=plan,
    judge=judge,
    concurrency=4,
    imagine=imagined,
)
