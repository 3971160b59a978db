"""The check's entry in the registry, and how its plan is sized."""

from __future__ import annotations

from harness.checks.check import Check, PlanRequest
from harness.checks.mtp.judge import judge
from workloads.mtp import NAME, MtpOptions, mtp
from workloads.plan import Ask, Json, Observation
from workloads.waves import Waves

SHORTEST_TOKENS, LONGEST_TOKENS = 192, 4096
DEEP_TOKENS = 720
RESERVE_TOKENS = 256
# Of what the device holds: so much overfills it. Most that a flood may cost.
FLOOD_SHARE, FLOOD_TOKENS = 1.3, 400_000
# Body fields by which a server tells of one answer's drafts.
FIELDS_OF_ENGINE: dict[str | None, dict[str, Json]] = {"sglang": {"return_spec_tokens_details": True}}
# Those that give token ids to who asks, which an end on a token needs.
GIVES_IDS = frozenset({"vllm", "sglang"})
IGNORES_EOS = frozenset({"vllm", "sglang", "llama.cpp"})


def plan(request: PlanRequest) -> Waves:
    """The plan of a round: a quarter of the budget's prompts of each class."""
    tokens = _tokens(request)
    return mtp(
        request.material,
        MtpOptions(
            name=f"r{request.round_index}",
            prompts=request.budget.prompts // 4 if request.follow_up is None else request.follow_up.count,
            tokens=tokens,
            deep_tokens=max(tokens + 1, min(_longest(request), max(DEEP_TOKENS, 3 * tokens))),
            fields=_fields(request),
            endless={"ignore_eos": True} if request.capabilities.engine in IGNORES_EOS else {},
            flood_tokens=_flood_tokens(request),
        ),
    )


def _flood_tokens(request: PlanRequest) -> int:
    """What overfills the device, where another tier stands behind it and nobody else is hurt; 0 where not."""
    known, left = request.capabilities, request.budget.max_tokens
    if known.host_tier is not True or known.cache_tokens is None or not request.exclusive:
        return 0
    wanted = int(FLOOD_SHARE * known.cache_tokens)
    return wanted if wanted <= (FLOOD_TOKENS if left is None else min(FLOOD_TOKENS, left // 4)) else 0


def _fields(request: PlanRequest) -> dict[str, Json]:
    engine = request.capabilities.engine
    ids: dict[str, Json] = {"return_token_ids": True}
    told = FIELDS_OF_ENGINE.get(engine, {})
    return told | ids if engine in GIVES_IDS and request.endpoint_type == "completions" else told


def _tokens(request: PlanRequest) -> int:
    """Long enough to be a hit where the block is known: drafts may cost the last matched one."""
    block = request.capabilities.block_tokens
    wanted = SHORTEST_TOKENS if block is None else max(SHORTEST_TOKENS, 2 * block + SHORTEST_TOKENS // 4)
    return max(1, min(wanted, LONGEST_TOKENS, _longest(request) // 4))


def _longest(request: PlanRequest) -> int:
    limit = request.max_model_len
    return 4 * LONGEST_TOKENS if limit is None else max(4, limit - RESERVE_TOKENS)


def imagined(ask: Ask) -> Observation:
    """A healthy answer, long enough to be a turn."""
    return Observation(key=ask.key, outcome="ok", text="an answer of some words")


MTP = Check(
    name=NAME,
    question="How many drafts are accepted, for which content and where, and do the counters add up?",
    disturbs=False,
    plan=plan,
    judge=judge,
    concurrency=2,
    imagine=imagined,
    repeats_baseline=True,
)
