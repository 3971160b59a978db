"""The check's entry in the registry, and how its plan is sized."""

from __future__ import annotations

from harness.checks.check import Check, PlanRequest
from harness.checks.heartbeat.judge import judge
from workloads.heartbeat import LOAD_TOKENS, NAME, HeartbeatOptions, heartbeat
from workloads.waves import Waves

RESERVE_TOKENS = 64
WIDTH = 8


def plan(request: PlanRequest) -> Waves:
    """The plan of a round: as many requests in a phase of load as the budget has prompts; later rounds have none."""
    limit = request.max_model_len
    longest = max(LOAD_TOKENS) if limit is None else min(max(LOAD_TOKENS), max(1, limit - RESERVE_TOKENS))
    return heartbeat(
        request.material,
        HeartbeatOptions(
            round_index=request.round_index,
            load=request.budget.prompts,
            width=WIDTH,
            longest_tokens=longest,
            salt=request.capabilities.salt is True,
            fields=request.logprob_fields,
        ),
    )


HEARTBEAT = Check(
    name=NAME,
    question="Does the server still answer after load as it did before?",
    disturbs=False,
    plan=plan,
    judge=judge,
    concurrency=WIDTH,
)
