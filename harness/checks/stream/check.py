"""The check's entry in the registry, and how its plan is sized."""

from __future__ import annotations

from harness.checks.check import Check, PlanRequest
from harness.checks.stream.judge import judge
from workloads.phases import Phased
from workloads.plan import Ask, Observation
from workloads.stream import NAME, StreamOptions, stream

FEWEST_PROMPTS = 6
# Engines that give token ids, and usage in every event, to those who ask.
GENEROUS = frozenset({"vllm", "sglang"})


def plan(request: PlanRequest) -> Phased:
    """The plan of a round: a quarter of the budget's prompts, each asked four times and more."""
    engine, chat = request.capabilities.engine, request.endpoint_type == "chat"
    prompts = max(FEWEST_PROMPTS, request.budget.prompts // 4)
    return stream(
        request.material,
        StreamOptions(
            name=f"r{request.round_index}",
            prompts=prompts if request.follow_up is None else request.follow_up.count,
            chat=chat,
            ids=engine in GENEROUS and not chat,
            continuous=engine in GENEROUS,
            fields=request.logprob_fields,
        ),
    )


def imagined(ask: Ask) -> Observation:
    """A healthy answer, with words to stop at."""
    return Observation(key=ask.key, outcome="ok", text="these are words enough to find one in the middle")


STREAM = Check(
    name=NAME,
    question="Are streamed and whole answers the same, well framed, well counted, and no garbage?",
    disturbs=False,
    plan=plan,
    judge=judge,
    concurrency=1,
    imagine=imagined,
)
