"""The check's entry in the registry, and how its plan is sized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.checks.check import BY_ID_OF_ENGINE, Check, PlanRequest
from harness.checks.spec_parity.judge import ONE_BY_ONE, SAMPLING, judge
from workloads.plan import Ask, Generator, Json, Observation
from workloads.sequence import Sequence as Steps
from workloads.spec_parity import NAME, VERSION, SpecParityOptions, spec_parity

WIDTH = 4
# One-token answers at temperature 1, which are never drafted, for each prompt of a round that has to tell why; the
# second where tokens counted one by one alarmed.
SINGLES_PER_PROMPT, SINGLES_ONE_BY_ONE = 24, 96
# Answers of two tokens for each prompt of a round that has to tell drafting from noise.
OPENINGS_PER_PROMPT = 4
# What keeps a server's own defaults from cutting the distribution at temperature 1.
UNCUT_OF_ENGINE: dict[str | None, dict[str, Json]] = {
    "vllm": {"top_k": -1, "min_p": 0},
    "sglang": {"top_k": -1, "min_p": 0},
    "llama.cpp": {"top_k": 0, "min_p": 0},
}


def plan(request: PlanRequest) -> Generator[Any]:
    """The plan of a round: the budget's prompts, and as many answers at temperature 1; nothing without token ids."""
    if not request.material.exact:
        return Steps(name=NAME, version=VERSION, steps=(), parameters={"why": "no token ids"})
    prompts = request.budget.prompts if request.follow_up is None else request.follow_up.count
    engine = request.capabilities.engine
    return spec_parity(
        request.material,
        SpecParityOptions(
            name=f"r{request.round_index}",
            prompts=prompts,
            openings=OPENINGS_PER_PROMPT * prompts if _asks_noise(request) else 0,
            rescore=not request.elsewhere,
            sampled=2 * prompts,
            singles=_singles(request) * prompts,
            uncut={**UNCUT_OF_ENGINE.get(engine, {}), **BY_ID_OF_ENGINE.get(engine, {})},
            width=WIDTH,
            salt=request.capabilities.salt is True,
            bypass=request.capabilities.bypass is True,
            fields=request.logprob_fields,
        ),
    )


def _asks_noise(request: PlanRequest) -> bool:
    """Whether rescored answers alarmed."""
    alarms = _alarms(request)
    return alarms is not None and SAMPLING not in alarms and not request.elsewhere


def _singles(request: PlanRequest) -> int:
    """One-token answers for each prompt; none unless samples alarmed."""
    alarms = _alarms(request)
    if alarms is None or SAMPLING not in alarms:
        return 0
    return SINGLES_ONE_BY_ONE if ONE_BY_ONE in alarms else SINGLES_PER_PROMPT


def _alarms(request: PlanRequest) -> Sequence[Json] | None:
    """The tests that alarmed in the round before; None if none was asked to repeat."""
    tests = None if request.follow_up is None else request.follow_up.stratum.get("tests")
    return tests if isinstance(tests, Sequence) else None


def imagined(ask: Ask) -> Observation:
    """A healthy answer of as many tokens as were asked for."""
    return Observation(key=ask.key, outcome="ok", token_ids=tuple(range(ask.max_tokens)))


SPEC_PARITY = Check(
    name=NAME,
    question="Are answers made with drafts those that the model gives without?",
    disturbs=False,
    plan=plan,
    judge=judge,
    concurrency=WIDTH,
    imagine=imagined,
    compares_other=True,
)
