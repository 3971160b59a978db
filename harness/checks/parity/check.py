"""The check's entry in the registry, and how its plan is sized."""

from __future__ import annotations

from typing import Any

from harness.checks.check import Check, PlanRequest
from harness.checks.parity.judge import judge
from workloads.parity import NAME, VERSION, ParityOptions, parity
from workloads.plan import Generator
from workloads.sequence import Sequence

RESERVE_TOKENS = 64
BLOCKS = 3
DEFAULT_BLOCK = 64


def plan(request: PlanRequest) -> Generator[Any]:
    """The budget's prompts, the same for both servers; nothing where no other server was named."""
    if not request.compared:
        return Sequence(name=NAME, version=VERSION, steps=(), parameters={"why": "no other server"})
    known = request.capabilities
    return parity(
        request.material,
        ParityOptions(
            prompts=request.budget.prompts,
            longest_tokens=_longest(request),
            block_tokens=DEFAULT_BLOCK if known.block_tokens is None else known.block_tokens,
            salt=known.salt is True,
            bypass=known.bypass is True,
            side="elsewhere" if request.elsewhere else "here",
            fields=request.logprob_fields,
        ),
    )


def _longest(request: PlanRequest) -> int:
    """The budget's, or three blocks where blocks are large; as far as the context goes."""
    block = request.capabilities.block_tokens
    wanted = max(request.budget.longest_prompt_tokens, 0 if block is None else BLOCKS * block + RESERVE_TOKENS)
    return wanted if request.max_model_len is None else max(1, min(wanted, request.max_model_len - RESERVE_TOKENS))


PARITY = Check(
    name=NAME,
    question="Does another server (--other-url) answer as this one does, cold and from the cache?",
    disturbs=False,
    plan=plan,
    judge=judge,
    concurrency=1,
    compares_other=True,
)
