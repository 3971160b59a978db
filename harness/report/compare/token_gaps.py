"""Inter-token latencies of a request as columns that can be resampled: their sum, their number, their histogram.

A run has far too many gaps to resample one by one. A resampled quantile comes from a histogram on a logarithmic scale,
linear within a bin; only its spread is used, the figure itself is the quantile of the gaps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.metrics.latency import itl_ms
from harness.records import Record
from harness.stats.bootstrap import Floats

BINS = 320
LEAST_MS, MOST_MS = 1e-3, 1e5
EDGES_MS: Floats = np.concatenate([[0.0], np.geomspace(LEAST_MS, MOST_MS, BINS)])


def gap_sums(record: Record) -> tuple[float, float] | None:
    """Sum of the gaps in ms and their number; None without any."""
    gaps_ms = itl_ms(record)
    return (float(gaps_ms.sum()), float(len(gaps_ms))) if len(gaps_ms) else None


def gap_counts(record: Record) -> tuple[float, ...] | None:
    """Gaps in each bin of EDGES_MS; longer ones are in the last. None without any."""
    gaps_ms = itl_ms(record)
    if not len(gaps_ms):
        return None
    counts, _ = np.histogram(np.minimum(gaps_ms, MOST_MS), bins=EDGES_MS)
    return tuple(counts.astype(float).tolist())


def gap_quantile(share: float, columns: Floats, weights: Floats) -> Floats:
    """Quantile in ms of the gaps counted in `columns`, float64[n, BINS], under each row of weights; nan of none."""
    counts = weights @ columns
    reached = np.cumsum(counts, axis=1)
    wanted = share * reached[:, -1]
    bins = np.minimum((reached < wanted[:, None] * (1 - 1e-12)).sum(axis=1), BINS - 1)
    at = np.arange(len(bins))
    inside = counts[at, bins]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = (wanted - (reached[at, bins] - inside)) / inside
    quantile: Floats = EDGES_MS[bins] + part * (EDGES_MS[bins + 1] - EDGES_MS[bins])
    return quantile


def quantile_of_gaps(share: float, records: Sequence[Record]) -> float | None:
    """The quantile of all gaps of the requests, in ms; None without any."""
    gaps = [gaps_ms for each in records if len(gaps_ms := itl_ms(each))]
    return float(np.quantile(np.concatenate(gaps), share)) if gaps else None
