"""Rates of small counts: intervals, and the smallest rate a sign test could have found."""

from __future__ import annotations

from harness.stats.tests import discordant_greater, rate_upper_bound


def rate_interval(hits: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's two-sided interval of a rate; (0, 1) without trials."""
    side = 1 - (1 - confidence) / 2
    return 1 - rate_upper_bound(of - hits, of, side) if of else 0.0, rate_upper_bound(hits, of, side)


def smallest_share(pairs: int, level: float, power: float = 0.9) -> float | None:
    """The smallest share of pairs gone worse, none better, that a sign test at `level` finds with `power`.

    None if even all of them would not do.
    """
    from scipy import stats

    needed = next((worse for worse in range(1, pairs + 1) if discordant_greater(worse, 0) < level), None)
    if needed is None:
        return None
    # At least `needed` of `pairs` with probability `power`: the upper bound of a rate after `needed` - 1 of `pairs`.
    return float(stats.beta.ppf(power, needed, pairs - needed + 1))
