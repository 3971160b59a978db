"""Whether events come in clusters: the runs test of Wald and Wolfowitz, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import comb


def too_few_runs(flags: Sequence[bool]) -> float | None:
    """P-value against "the events are scattered at random": the share of their orders with as few runs or fewer.

    None if all flags are alike, which can be in one order only.
    """
    ones = sum(flags)
    zeros = len(flags) - ones
    if not ones or not zeros:
        return None
    seen = sum(1 for _ in groupby(flags))
    orders = sum(_orders(runs, ones, zeros) for runs in range(2, seen + 1))
    return orders / comb(len(flags), ones)


def _orders(runs: int, ones: int, zeros: int) -> int:
    """Orders of the flags with exactly so many runs (Wald and Wolfowitz 1940)."""
    half = runs // 2
    if runs % 2 == 0:
        return 2 * comb(ones - 1, half - 1) * comb(zeros - 1, half - 1)
    return comb(ones - 1, half) * comb(zeros - 1, half - 1) + comb(ones - 1, half - 1) * comb(zeros - 1, half)
