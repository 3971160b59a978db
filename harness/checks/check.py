"""What a check is: a question, a plan that asks, and a judge that reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.checks.history import Capabilities, CheckHistory
from harness.checks.verdict import FollowUp, Verdict
from workloads.cost import answered
from workloads.material import Material
from workloads.plan import Ask, Generator, Json, Observation

PROMPTS_OF_BUDGET: Mapping[str, int] = {"small": 16, "normal": 32, "thorough": 64}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckBudget:
    """How much a check may ask.

    prompts: units of its first round; a follow-up names its own count. longest_prompt_tokens: where a plan can choose.
    max_tokens: prompt and output tokens that are left, None for no limit.
    """

    name: str = "normal"
    prompts: int = PROMPTS_OF_BUDGET["normal"]
    longest_prompt_tokens: int = 768
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.prompts < 1 or self.longest_prompt_tokens < 1:
            raise ValueError("a budget needs at least 1 prompt of at least 1 token")


# vLLM names tokens by their text, so that those written alike become one in its tables, unless it is asked for ids.
BY_ID_OF_ENGINE: Mapping[str | None, Mapping[str, Json]] = {"vllm": {"return_tokens_as_token_ids": True}}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """Everything a plan may depend on.

    logprob_fields: body fields that ask for the most alternatives per token that work, empty if none do. exclusive: the
    server is ours alone, so that steps which hurt others are allowed. max_model_len: None if it is not known.
    context_tokens: the context that the operator wants to use, None if none was named. follow_up: None for the first
    round. elsewhere: another server is asked, for comparison. compared: there is one.
    """

    budget: CheckBudget
    capabilities: Capabilities
    material: Material
    seed: int
    round_index: int = 0
    follow_up: FollowUp | None = None
    endpoint_type: str = "completions"
    logprob_fields: Mapping[str, Json] = field(default_factory=dict)
    exclusive: bool = False
    max_model_len: int | None = None
    context_tokens: int | None = None
    elsewhere: bool = False
    compared: bool = False

    @property
    def table_fields(self) -> Mapping[str, Json]:
        """`logprob_fields` for tables in which no two tokens are one."""
        by_id = BY_ID_OF_ENGINE.get(self.capabilities.engine, {}) if self.logprob_fields else {}
        return {**self.logprob_fields, **by_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One question about an endpoint.

    disturbs: its steps hurt whoever else uses the server. concurrency: most requests in flight; the plan decides how
    many it wants. imagine: the answer of a healthy server to a request, good enough to foresee the cost of the plan.
    repeats_baseline: against a baseline it asks the very prompts of that run. compares_other: its first round is asked
    of a second server too, where one is named. route: the only one it can ask on ("chat"), None for either.
    width: the concurrency where it depends on the budget. timed: its verdict may rest on times, so that a harness that
    did not keep up spoils it.
    """

    name: str
    question: str
    disturbs: bool
    plan: Callable[[PlanRequest], Generator[Any]]
    judge: Callable[[CheckHistory], Verdict]
    concurrency: int = 8
    imagine: Callable[[Ask], Observation] = answered
    repeats_baseline: bool = False
    compares_other: bool = False
    timed: bool = False
    route: str | None = None
    width: Callable[[CheckBudget], int] | None = None

    def concurrency_at(self, budget: CheckBudget) -> int:
        """Most requests in flight."""
        return self.concurrency if self.width is None else self.width(budget)
