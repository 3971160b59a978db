"""The server's counters beside what we counted: restarts, somebody else's requests, and counts that differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.endpoint.counters import engine_of_counters, total
from harness.records import Complete, CounterSample, Outcome

SLACK_TOKENS = 16
SLACK_SHARE = 0.01
_ONLY_GROW = ("prompt_tokens", "generation_tokens", "cached_tokens", "spec_drafts")
_OURS = {"prompt_tokens": "prompt", "generation_tokens": "output", "cached_tokens": "cached"}


@dataclass(slots=True)
class OwnTokens:
    """Tokens of our requests by the server's usage; `whole` is False once one answer did not tell, or was not OK."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    cached_tokens: int | None = 0
    whole: bool = True

    def add(self, complete: Complete) -> None:
        """Count one request; one that was surely not executed costs nothing."""
        if complete.outcome is Outcome.REFUSED:
            return
        usage = complete.usage
        if complete.outcome is not Outcome.OK or usage is None:
            self.whole = False
            return
        if usage.prompt_tokens is None or usage.completion_tokens is None:
            self.whole = False
            return
        self.prompt_tokens += usage.prompt_tokens
        self.generation_tokens += usage.completion_tokens
        both = self.cached_tokens is not None and usage.cached_tokens is not None
        self.cached_tokens = (self.cached_tokens or 0) + (usage.cached_tokens or 0) if both else None


def counters_went_back(samples: Sequence[CounterSample], engine: str) -> bool:
    """Whether a counter that only grows fell: the server was restarted, or several answer in turn."""
    for meaning in _ONLY_GROW:
        values = [total(sample, engine, meaning) for sample in sorted(samples, key=lambda each: each.at_ns)]
        known = [value for value in values if value is not None]
        if any(later < earlier for earlier, later in pairwise(known)):
            return True
    return False


def counter_warnings(samples: Sequence[CounterSample], ours: OwnTokens) -> list[str]:
    """What a reader has to be told; empty without two samples of a known engine."""
    engine = None if len(samples) < 2 else engine_of_counters(samples[-1].values)
    if engine is None:
        return []
    if counters_went_back(samples, engine):
        return ["the server's counters went back: it was restarted, or several servers answer in turn"]
    if not ours.whole:
        return []
    warnings = [_compared(samples, engine, meaning, getattr(ours, meaning)) for meaning in _OURS]
    return [text for text in warnings if text is not None]


def _compared(samples: Sequence[CounterSample], engine: str, meaning: str, counted: int | None) -> str | None:
    first, last = total(samples[0], engine, meaning), total(samples[-1], engine, meaning)
    if first is None or last is None or counted is None:
        return None
    moved = round(last - first)
    if abs(moved - counted) <= SLACK_TOKENS + SLACK_SHARE * counted:
        return None
    if meaning == "prompt_tokens" and moved > counted:
        return f"not alone: the counters saw {moved - counted:,} prompt tokens that were not ours"
    return f"usage and counters disagree: {counted:,} {_OURS[meaning]} tokens by usage, {moved:,} by the counters"
