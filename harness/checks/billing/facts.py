"""The answers of the check: what was counted, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.history import Answer, Prices
from harness.records import Outcome

TOKENS_OF_PRICE = 1_000_000
# Costs are rounded somewhere on their way.
RELATIVE_SLACK, ABSOLUTE_SLACK = 0.01, 5e-7


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One answer with its counts; cost: as the server gave it, None if it gave none. provider: "" if not named."""

    request_id: str
    prompt: str
    streamed: bool
    prompt_tokens: int | None
    cached: int | None
    completion_tokens: int | None
    cost: float | None
    provider: str

    @property
    def counted(self) -> bool:
        return self.prompt_tokens is not None and self.completion_tokens is not None

    @property
    def possible(self) -> bool:
        """Whether its cost is a number that a cost can be."""
        return self.cost is None or (math.isfinite(self.cost) and self.cost >= 0)

    def due(self, prices: Prices) -> tuple[float, float] | None:
        """The least and the most it may cost; None without counts. They differ where cached tokens are not reported."""
        if self.prompt_tokens is None or self.completion_tokens is None:
            return None
        most = self._cost(prices, 0 if self.cached is None else self.cached)
        least = self._cost(prices, self.prompt_tokens if self.cached is None else self.cached)
        return min(least, most), max(least, most)

    def _cost(self, prices: Prices, cached: int) -> float:
        assert self.prompt_tokens is not None and self.completion_tokens is not None
        assert prices.input is not None and prices.cached_input is not None and prices.output is not None
        fresh = (self.prompt_tokens - cached) * prices.input
        return (fresh + cached * prices.cached_input + self.completion_tokens * prices.output) / TOKENS_OF_PRICE

    def agrees(self, prices: Prices) -> bool:
        """Whether its cost is what is due; also if either is not known."""
        due = self.due(prices)
        if due is None or self.cost is None:
            return True
        slack = max(ABSOLUTE_SLACK, RELATIVE_SLACK * due[1])
        return due[0] - slack <= self.cost <= due[1] + slack

    def describe(self) -> str:
        form = "streamed" if self.streamed else "whole"
        cached = "not reported" if self.cached is None else f"{self.cached}"
        counts = f"{self.prompt_tokens} prompt tokens ({cached} cached) and {self.completion_tokens} output tokens"
        return f"{self.prompt} ({form}): {counts} cost {self.cost if self.cost is not None else 'nothing that is told'}"


def rows_of(answers: Sequence[Answer]) -> list[Row]:
    """Every answer that came in full."""
    return [_row(answer) for answer in answers if answer.record.complete.outcome is Outcome.OK]


def _row(answer: Answer) -> Row:
    invoke, done = answer.record.invoke, answer.record.complete
    cost, provider, usage = done.extra.get("cost"), done.extra.get("provider"), done.usage
    return Row(
        request_id=invoke.request_id,
        prompt=str(invoke.session),
        streamed=invoke.parameters.get("stream") is True,
        prompt_tokens=None if usage is None else usage.prompt_tokens,
        cached=None if usage is None else usage.cached_tokens,
        completion_tokens=None if usage is None else usage.completion_tokens,
        cost=float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
        provider=provider if isinstance(provider, str) else "",
    )
