"""Counters of one engine since it started."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from harness.reference.scheduler.request import FinishReason

TTFT_BOUNDS_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0)
TOKEN_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0)
E2E_BOUNDS_S = (0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0)


class Histogram:
    """Counts of observations up to each bound, as Prometheus keeps them."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Counts one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Bucket bounds and how many observations lie at or below each; the last bound is +Inf."""
        running, rows = 0, []
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts, strict=True):
            running += count
            rows.append((bound, float(running)))
        return rows


@dataclass(slots=True, kw_only=True)
class EngineStats:
    """What the engine did; cached and queried tokens count first schedulings only, re-runs of preempted ones aside."""

    requests_received: int = 0
    queried_tokens: int = 0
    cached_tokens: int = 0
    host_tokens: int = 0
    prompt_tokens: int = 0
    prefilled_tokens: int = 0
    recomputed_tokens: int = 0
    generated_tokens: int = 0
    decode_steps: int = 0
    decode_rows: int = 0
    preemptions: int = 0
    draft_steps: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: list[int] = field(default_factory=list)
    longest_tokens: int = 0
    prefill_ns: int = 0
    decode_ns: int = 0
    finished: dict[FinishReason, int] = field(default_factory=lambda: dict.fromkeys(FinishReason, 0))
    ttft: Histogram = field(default_factory=lambda: Histogram(TTFT_BOUNDS_S))
    token_gap: Histogram = field(default_factory=lambda: Histogram(TOKEN_BOUNDS_S))
    e2e: Histogram = field(default_factory=lambda: Histogram(E2E_BOUNDS_S))
    queue: Histogram = field(default_factory=lambda: Histogram(E2E_BOUNDS_S))
