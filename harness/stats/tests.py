"""Tests and bounds on small samples; every p-value is one-sided unless it says otherwise.

scipy is imported where it is needed: it takes longer to load than everything else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

SD_FLOOR = 0.3


def t_greater(values: Sequence[float], bound: float, sd_floor: float = SD_FLOOR) -> float:
    """P-value of Student's t against "the mean is at most `bound`", the standard deviation taken as `sd_floor` or more.

    1.0 for fewer than two values.
    """
    from scipy import stats

    count = len(values)
    if count < 2:
        return 1.0
    spread = max(float(np.std(values, ddof=1)), sd_floor)
    return float(stats.t.sf((float(np.mean(values)) - bound) * math.sqrt(count) / spread, count - 1))


def holm(p_values: Mapping[str, float], level: float) -> frozenset[str]:
    """Names rejected by Holm's step-down procedure at a family-wise `level`."""
    rejected: set[str] = set()
    for rank, (name, p_value) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        if p_value > level / (len(p_values) - rank):
            break
        rejected.add(name)
    return frozenset(rejected)


def fisher_greater(hits: int, of: int, null_hits: int, null_of: int) -> float:
    """Fisher's exact p-value that hits / of exceeds null_hits / null_of by chance; 1.0 for an empty side."""
    from scipy import stats

    if of == 0 or null_of == 0:
        return 1.0
    table = [[hits, of - hits], [null_hits, null_of - null_hits]]
    return float(stats.fisher_exact(table, alternative="greater").pvalue)


def rate_upper_bound(hits: int, of: int, confidence: float = 0.95) -> float:
    """Clopper and Pearson's upper bound of a rate; 1.0 without trials."""
    from scipy import stats

    if hits >= of:
        return 1.0
    return float(stats.beta.ppf(confidence, hits + 1, of - hits))


def rate_seen(needed: int, of: int, power: float = 0.99) -> float:
    """The smallest rate at which `needed` of `of` trials or more come true with probability `power`, or 1.0."""
    from scipy import stats

    return float(stats.beta.ppf(power, needed, of - needed + 1)) if 0 < needed <= of else 1.0


def hazard_ratio_greater(events: int, exposure: float, null_events: int, null_exposure: float, ratio: float) -> float:
    """P-value against "events come at most `ratio` times as often per exposure as in the null".

    Given all events, those of the arm are binomial with p = ratio * T1 / (T0 + ratio * T1) at most. 1.0 if there are
    none, or nothing was exposed.
    """
    from scipy import stats

    if events == 0 or exposure <= 0 or null_exposure <= 0:
        return 1.0
    share = ratio * exposure / (null_exposure + ratio * exposure)
    return float(stats.binom.sf(events - 1, events + null_events, share))


def discordant_greater(worse: int, better: int) -> float:
    """McNemar's exact one-sided p-value: `worse` of the discordant pairs lost something, `better` gained it."""
    from scipy import stats

    return float(stats.binom.sf(worse - 1, worse + better, 0.5)) if worse else 1.0


def t_quantile(probability: float, count: int) -> float:
    """Quantile of Student's t for a mean of `count` values."""
    from scipy import stats

    return float(stats.t.ppf(probability, max(1, count - 1)))
