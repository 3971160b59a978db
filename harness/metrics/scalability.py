"""How throughput grows with concurrency: the universal scalability law, and where it peaks.

X(N) = g N / (1 + a (N - 1) + b N (N - 1)): g one request's throughput, a contention, b coherency (Gunther). Written as
N / X = (1 + a (N - 1) + b N (N - 1)) / g it is linear and fitted with coefficients of at least 0, by relative error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FEWEST_LEVELS = 6
RESAMPLES = 400
LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalability:
    """A fit. peak: the concurrency of most throughput, None if the interval of b touches 0, so that none is shown.

    b_low, b_high: 95% interval of b by resampling the residuals.
    """

    g: float
    a: float
    b: float
    b_low: float
    b_high: float

    def throughput(self, concurrency: float) -> float:
        """What the law says at a concurrency."""
        n = concurrency
        return self.g * n / (1 + self.a * (n - 1) + self.b * n * (n - 1))

    @property
    def peak(self) -> float | None:
        """sqrt((1 - a) / b)."""
        return math.sqrt(max(0.0, 1 - self.a) / self.b) if self.b_low > 0 else None


def fit_scalability(levels: Sequence[float], throughputs: Sequence[float], seed: int = 0) -> Scalability | None:
    """The law fitted to measured levels; None for fewer than FEWEST_LEVELS different ones, or without throughput."""
    n, x = np.asarray(levels, dtype=np.float64), np.asarray(throughputs, dtype=np.float64)
    if len(set(levels)) < FEWEST_LEVELS or not np.all(x > 0):
        return None
    g, a, b = _solve(n, x)
    if g == 0:
        return None
    expected = g * n / (1 + a * (n - 1) + b * n * (n - 1))
    ratios = x / expected
    rng = np.random.default_rng(seed)
    drawn = [_solve(n, expected * rng.choice(ratios, len(n)))[2] for _ in range(RESAMPLES)]
    low, high = np.percentile(drawn, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return Scalability(g=g, a=a, b=b, b_low=float(low), b_high=float(high))


def _solve(n: npt.NDArray[np.float64], x: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    from scipy.optimize import nnls

    columns = np.stack([np.ones_like(n), n - 1, n * (n - 1)], axis=1)
    weights = x / n
    (base, contention, coherency), _ = nnls(columns * weights[:, None], np.ones_like(n))
    return (0.0, 0.0, 0.0) if base == 0 else (1 / base, contention / base, coherency / base)
