"""The hard stop by tokens: what is spent, and what requests in flight may still cost."""

from __future__ import annotations

from harness.records import Complete, Outcome
from workloads.plan import Ask
from workloads.text import approximate_count, prompt_tokens


class TokenBudget:
    """Prompt and output tokens of a cell, never above `limit` as far as prompt lengths are known before sending.

    A request is booked at its expected prompt length (four characters a token if the plan names none) and its
    `max_tokens`, and settled at what the server says it was. limit None means no limit.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._spent = 0
        self._booked: dict[str, int] = {}

    def book(self, ask: Ask) -> bool:
        """Whether the request may be sent; if so its cost is booked."""
        if self._limit is None:
            return True
        expected = ask.expected_prompt_tokens
        length = prompt_tokens(ask.prompt, approximate_count) if expected is None else expected
        cost = length + ask.max_tokens
        if self._spent + sum(self._booked.values()) + cost > self._limit:
            return False
        self._booked[ask.key] = cost
        return True

    def settle(self, key: str, complete: Complete) -> None:
        """Replace a booking by the true cost: nothing if refused, the booking itself if the server did not say."""
        booked = self._booked.pop(key, 0)
        usage = complete.usage
        if complete.outcome is Outcome.REFUSED:
            return
        if usage is None or usage.prompt_tokens is None or usage.completion_tokens is None:
            self._spent += booked
        else:
            self._spent += usage.prompt_tokens + usage.completion_tokens
