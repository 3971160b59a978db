"""The check's entry in the registry, and how its plan is sized."""

from __future__ import annotations

from harness.checks.check import Check, PlanRequest
from harness.checks.eviction.judge import NAME, judge
from workloads.eviction import eviction, imagined
from workloads.eviction_shape import SHORTEST_PROMPT, EvictionOptions
from workloads.waves import Waves

RESERVE_TOKENS = 64
REQUESTS_PER_PROMPT = 12
FLOOD_TOKENS = 400_000
# Beside drafts, prompts are made longer than the server's prefill chunk up to here.
LONGEST_CHUNK_TOKENS = 2048


def plan(request: PlanRequest) -> Waves:
    """The plan of a round: smaller cycles and long tails when it only has to confirm."""
    known, follow_up = request.capabilities, request.follow_up
    longest = _longest(request)
    return eviction(
        request.material,
        EvictionOptions(
            name=f"r{request.round_index}",
            round_index=request.round_index,
            seed=request.seed,
            prompts=request.budget.prompts if follow_up is None else follow_up.count,
            longest_tokens=longest,
            salt=known.salt is True,
            bypass=known.bypass is True,
            flush=known.flush is True,
            cache_tokens=known.cache_tokens,
            flood_tokens=_flood_tokens(request),
            chunk_tokens=known.chunk_tokens,
            long_tails=follow_up is not None,
            fields=request.table_fields,
        ),
    )


def _longest(request: PlanRequest) -> int:
    """The longest prompt that the budget and the context allow; three blocks and a tail where blocks are large.

    Beside drafts, where nothing else gives a cold answer the shape of a hit, a block and a tail longer than the
    prefill chunk, if that is known and not too long.
    """
    known = request.capabilities
    block, chunk = known.block_tokens or 0, known.chunk_tokens
    wanted = max(request.budget.longest_prompt_tokens, SHORTEST_PROMPT, 3 * block + RESERVE_TOKENS)
    if known.speculation and chunk is not None and chunk <= LONGEST_CHUNK_TOKENS:
        wanted = max(wanted, chunk + block + RESERVE_TOKENS)
    return wanted if request.max_model_len is None else min(wanted, request.max_model_len - RESERVE_TOKENS)


def _flood_tokens(request: PlanRequest) -> int:
    """What one flood may cost: six of them and the prompts themselves share what is left of the budget."""
    left = request.budget.max_tokens
    if left is None:
        return FLOOD_TOKENS
    prompts = request.budget.prompts * REQUESTS_PER_PROMPT * _longest(request)
    return max(_longest(request), min(FLOOD_TOKENS, (left - prompts) // 6))


EVICTION = Check(
    name=NAME,
    question="Are answers still right after the cache was hit, evicted, and filled again?",
    disturbs=True,
    plan=plan,
    judge=judge,
    concurrency=8,
    imagine=imagined,
    timed=True,
)
