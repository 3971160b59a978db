"""Intervals by resampling groups of values that belong together, such as the turns of one session."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
# Resamples times values held in memory at once.
_CHUNK_CELLS = 4_000_000


def group_draws(groups: int, replicates: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """How often each of `groups` is drawn in each resample with replacement, int64[replicates, groups]."""
    return rng.multinomial(groups, np.full(groups, 1.0 / groups), size=replicates)


def chunks(replicates: int, values: int) -> list[slice]:
    """Parts of the resamples that fit into memory beside `values` values."""
    size = max(1, _CHUNK_CELLS // max(values, 1))
    return [slice(start, min(start + size, replicates)) for start in range(0, replicates, size)]


def weighted_mean(values: Floats, weights: Floats) -> Floats:
    """Mean of float64[n] under each row of weights, float64[replicates]."""
    mean: Floats = (weights @ values) / weights.sum(axis=1)
    return mean


def weighted_quantile(values: Floats, weights: Floats, share: float) -> Floats:
    """Quantile of float64[n] under each row of weights, halfway between two values where the share falls on a step."""
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    reached = np.cumsum(weights[:, order], axis=1)
    wanted = share * reached[:, -1:]
    tolerance = 1e-9 * reached[:, -1:]
    low = ((reached >= wanted - tolerance) & (reached > 0)).argmax(axis=1)
    above = reached > wanted + tolerance
    high = np.where(above.any(axis=1), above.argmax(axis=1), low)
    quantile: Floats = (ranked[low] + ranked[high]) / 2
    return quantile


def interval(replicates: Floats, confidence: float = 0.95) -> tuple[float, float]:
    """The central share of the resamples; infinite ones stay at their end."""
    ranked = np.sort(replicates)
    tail = (1 - confidence) / 2
    low = int(np.floor(tail * (len(ranked) - 1)))
    high = int(np.ceil((1 - tail) * (len(ranked) - 1)))
    return float(ranked[low]), float(ranked[high])


def block_groups(count: int) -> npt.NDArray[np.int64]:
    """Groups for values in the order of time: blocks of about the cube root of their number, at least two values each.

    Blocks keep neighbours together, which are alike when a server slows down for a while.
    """
    length = max(2, round(count ** (1 / 3)))
    groups: npt.NDArray[np.int64] = np.arange(count) // length
    return groups
