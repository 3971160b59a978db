"""The third witness: time to the first token, as a line over the tokens that had to be computed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from harness.checks.cached_tokens.facts import Row

FEWEST_COLD = 6
SMALLEST_SPREAD = 1.5
SIGNAL_TO_NOISE = 6.0
CLOSE_TOKENS = 32
# A median absolute deviation times this is the standard deviation of a normal sample.
MAD_TO_SD = 1.4826


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWitness:
    """ttft_ms = base_ms + ms_per_token * computed tokens, fitted on prompts that were never seen before.

    noise_ms: standard deviation around the line. cold: how many prompts it rests on. problem: why it says nothing.
    """

    base_ms: float = 0.0
    ms_per_token: float = 0.0
    noise_ms: float = 0.0
    cold: int = 0
    problem: str | None = None

    @property
    def usable(self) -> bool:
        """Whether it can tell a hit from a miss."""
        return self.problem is None

    def skipped_tokens(self, row: Row) -> float | None:
        """Tokens that were not computed, by the time it took; None for a request too short to tell, or not streamed."""
        if not self.usable or row.ttft_ms is None or row.prompt_tokens is None:
            return None
        if self.ms_per_token * row.prompt_tokens < SIGNAL_TO_NOISE * self.noise_ms:
            return None
        return (self.base_ms + self.ms_per_token * row.prompt_tokens - row.ttft_ms) / self.ms_per_token


def time_witness(rows: Sequence[Row]) -> TimeWitness:
    """Fit the line by the median of all slopes (Theil and Sen), which single slow answers do not move."""
    cold = [
        (row.prompt_tokens, row.ttft_ms)
        for row in rows
        if row.sighting == 0 and row.may_hit <= CLOSE_TOKENS and row.arm not in ("twin", "salted")
        and row.ttft_ms is not None and row.prompt_tokens is not None
    ]  # fmt: skip
    lengths = [length for length, _ in cold]
    if len(cold) < FEWEST_COLD or max(lengths) < SMALLEST_SPREAD * min(lengths):
        return TimeWitness(cold=len(cold), problem="too few streamed prompts of different lengths")
    slopes = [
        (later_ms - earlier_ms) / (longer - shorter)
        for (shorter, earlier_ms), (longer, later_ms) in combinations(cold, 2)
        if longer != shorter
    ]
    ms_per_token = statistics.median(slopes)
    base_ms = statistics.median(ttft_ms - ms_per_token * length for length, ttft_ms in cold)
    residuals = [abs(ttft_ms - base_ms - ms_per_token * length) for length, ttft_ms in cold]
    noise_ms = MAD_TO_SD * statistics.median(residuals)
    problem = None
    if ms_per_token <= 0 or ms_per_token * max(lengths) < SIGNAL_TO_NOISE * noise_ms:
        problem = "time to first token does not grow with the prompt beyond its own noise"
    return TimeWitness(base_ms=base_ms, ms_per_token=ms_per_token, noise_ms=noise_ms, cold=len(cold), problem=problem)
