"""The check's entry in the registry, and how its plan is sized."""

from __future__ import annotations

from harness.checks.check import Check, PlanRequest
from harness.checks.isolation.judge import judge
from workloads.isolation import MOST_IN_FLIGHT, NAME, PRESSED, IsolationOptions, isolation
from workloads.waves import Waves

PROMPTS_PER_CYCLE = 16
CODEWORD_DIGITS = 4
CHAT_CODEWORD_DIGITS = 10
DEFAULT_BLOCK = 64
RESERVE_TOKENS = 64
SHORT_OF_A_BLOCK = 4


def plan(request: PlanRequest) -> Waves:
    """The plan of a round; a follow-up repeats the whole on fresh content, as often as it says."""
    known = request.capabilities
    chat = request.endpoint_type == "chat"
    cycles = request.budget.prompts // PROMPTS_PER_CYCLE if request.follow_up is None else request.follow_up.count
    return isolation(
        request.material,
        IsolationOptions(
            name=f"r{request.round_index}",
            seed=request.material.seed,
            cycles=max(1, cycles),
            chat=chat,
            digits=CHAT_CODEWORD_DIGITS if chat else CODEWORD_DIGITS,
            salt=known.salt is True,
            bypass=known.bypass is True,
            fields=request.logprob_fields,
            resend_tokens=_resend_tokens(request),
            pressed_tokens=_pressed_tokens(request),
        ),
    )


def _resend_tokens(request: PlanRequest) -> int | None:
    """Whole blocks and one token; None where prompts have no exact length or a block is too long."""
    block = request.capabilities.block_tokens
    block = DEFAULT_BLOCK if block is None else block
    tokens = 2 * block + 1
    return tokens if request.material.exact and tokens <= request.budget.longest_prompt_tokens else None


def _pressed_tokens(request: PlanRequest) -> int | None:
    """A share of the memory that PRESSED of them do not find; None where it is not known or costs too much."""
    known = request.capabilities
    memory = known.cache_tokens
    if memory is None or not request.exclusive:
        return None
    block = known.block_tokens if known.block_tokens is not None else DEFAULT_BLOCK
    # A whole number of blocks but for a few tokens, so that every answer soon needs another one.
    tokens = memory // PRESSED // block * block - SHORT_OF_A_BLOCK
    longest = request.budget.longest_prompt_tokens
    if request.max_model_len is not None:
        longest = min(longest, request.max_model_len - RESERVE_TOKENS)
    return tokens if 1 <= tokens <= longest else None


ISOLATION = Check(
    name=NAME,
    question="Does every request keep to itself, whoever else is served before, beside and after it?",
    disturbs=True,
    plan=plan,
    judge=judge,
    concurrency=MOST_IN_FLIGHT,
)
