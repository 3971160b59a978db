"""The options of a check run: what was typed, checked once, and kept in run.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.checks.check import PROMPTS_OF_BUDGET, CheckBudget
from workloads.plan import Json

REQUIRABLE = ("billing", "cached-report", "cached-tokens", "exact-drafts", "reasoning", "speculation", "tools")
SHORTEST_CONTEXT = 256
ENDPOINT_TYPES = ("auto", "chat", "completions")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """Everything that decides what a check run asks; neither keys nor header values are part of it.

    checks: names, in order. endpoint_type "auto": completions with token ids where they work, else chat.
    max_tokens_total, max_minutes: caps of the whole run, None for none. deterministic: the operator says that answers
    are bit-exact. require: features that have to be there. baseline: folder of an earlier run of one's own.
    expect_acceptance: acceptance length measured elsewhere. other_url, other_model: a second server to compare with.
    prefill_chunk: tokens that the server computes of a prompt at a time, None for what it says.
    context: tokens that the server has to take and remember, None for what it says it serves. price_input,
    price_cached_input, price_output: of a million tokens, None where nobody said. preset: a published deployment whose
    sampling those checks take that need no greedy answers. extra_body: fields of every request, such as a gateway's
    pinned provider. retries: how often a 429 is waited out. metrics_urls: pages of counters elsewhere.
    """

    checks: tuple[str, ...]
    endpoint_type: str = "auto"
    model: str | None = None
    budget: str = "normal"
    max_tokens_total: int | None = None
    max_minutes: float | None = None
    exclusive_server: bool = False
    deterministic: bool = False
    require: tuple[str, ...] = ()
    baseline: str | None = None
    expect_acceptance: float | None = None
    prefill_chunk: int | None = None
    context: int | None = None
    price_input: float | None = None
    price_cached_input: float | None = None
    price_output: float | None = None
    other_url: str | None = None
    other_model: str | None = None
    preset: str | None = None
    extra_body: Mapping[str, Json] = field(default_factory=dict)
    retries: int = 0
    metrics_urls: tuple[str, ...] = ()
    seed: int = 0
    tokenizer: str | None = None
    connect_timeout_s: float = 10.0
    first_byte_timeout_s: float = 600.0
    stall_timeout_s: float = 120.0
    request_timeout_s: float = 3600.0
    notes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.budget not in PROMPTS_OF_BUDGET:
            raise ValueError(f"--budget must be one of {', '.join(PROMPTS_OF_BUDGET)}")
        if self.max_tokens_total is not None and self.max_tokens_total < 1:
            raise ValueError("--max-tokens-total must be at least 1")
        if self.max_minutes is not None and self.max_minutes <= 0:
            raise ValueError("--max-minutes must be above 0")
        if self.context is not None and self.context < SHORTEST_CONTEXT:
            raise ValueError(f"--context must be at least {SHORTEST_CONTEXT} tokens")
        if self.prefill_chunk is not None and self.prefill_chunk < 1:
            raise ValueError("--prefill-chunk must be at least 1")
        if any(price is not None and price < 0 for price in self._prices):
            raise ValueError("a price cannot be negative")
        if len({price is None for price in self._prices}) > 1:
            raise ValueError("name all three prices, --price-input, --price-cached-input and --price-output, or none")
        if self.expect_acceptance is not None and self.expect_acceptance < 1:
            raise ValueError("--expect-acceptance must be at least 1, which is an answer without accepted drafts")

    @property
    def _prices(self) -> tuple[float | None, ...]:
        return self.price_input, self.price_cached_input, self.price_output

    @property
    def check_budget(self) -> CheckBudget:
        """The budget as the checks read it."""
        return CheckBudget(name=self.budget, prompts=PROMPTS_OF_BUDGET[self.budget], max_tokens=self.max_tokens_total)

    def as_json(self) -> dict[str, Json]:
        """Plain data for run.json."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "notes"}
