"""Tokens drawn at temperature 1 against the tables that the server gives beside them, counted in groups.

Groups: tokens in the table by their probability, and all tokens outside it; or the most frequent tokens one by one, and
all others. Given the text before it, each token falls into a group with the probability that the table says, so that
counts less expectations have mean 0 and known variance whatever the texts are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.records import TokenLogprob
from harness.stats.gaps import stands_for_many

Floats = npt.NDArray[np.float64]
# Lower ends of the groups in the table; the last group is everything outside.
EDGES = (0.5, 0.1, 0.02, 0.0)
NAMES = ("likely (0.5 and more)", "0.1 to 0.5", "0.02 to 0.1", "rare ones in the table", "those outside the table")
FEWEST_EXPECTED = 5.0
FEWEST_TOKENS = 200
# So many tokens one by one, each of them expected so often at least.
MOST_FREQUENT, FEWEST_FREQUENT = 24, 20.0
OTHERS = "all others"
# Groups that hold every token cannot all vary: one direction has no variance but rounding.
SINGULAR = 1e-10


@dataclass(frozen=True, slots=True)
class Draws:
    """tokens: how many were drawn. excess: counts less expectations by group, float64[groups]; variance: its
    covariance, float64[groups, groups]; expected: float64[groups]; names: of the groups."""

    names: tuple[str, ...]
    tokens: int
    excess: Floats
    expected: Floats
    variance: Floats

    def p_value(self) -> float | None:
        """Chi-square against the tables; None for too few tokens."""
        return None if self.tokens < FEWEST_TOKENS else _chi_square(self.excess, self.variance, self._kept)

    @property
    def _kept(self) -> list[int]:
        return [group for group, count in enumerate(self.expected) if count >= FEWEST_EXPECTED]

    def with_more(self, other: Draws) -> Draws:
        """Both sets together."""
        return Draws(
            self.names,
            self.tokens + other.tokens,
            self.excess + other.excess,
            self.expected + other.expected,
            self.variance + other.variance,
        )

    def worst(self) -> str:
        """The group that is furthest off, in words."""
        kept = self._kept
        scores = [abs(self.excess[group]) / math.sqrt(max(self.variance[group, group], 1e-12)) for group in kept]
        group = kept[int(np.argmax(scores))]
        drawn = round(self.excess[group] + self.expected[group])
        return f"{self.names[group]}: {drawn} of {self.tokens}, where {self.expected[group]:.0f} were expected"

    def against(self, other: Draws) -> float:
        """Chi-square of the difference between two sets, each by token; 1.0 where nothing can be compared."""
        kept = [group for group in self._kept if other.expected[group] >= FEWEST_EXPECTED]
        if not kept or not other.tokens:
            return 1.0
        difference = self.excess / self.tokens - other.excess / other.tokens
        return _chi_square(difference, self.variance / self.tokens**2 + other.variance / other.tokens**2, kept)

    def along(self, mine: Draws, others: Draws) -> float:
        """Whether `mine` is off as this set is, and more than `others`: one-sided p; 1.0 where nothing can be compared.

        One direction in place of all groups, so that few others are enough.
        """
        from scipy import stats

        kept = self._kept
        if not kept or not mine.tokens or not others.tokens:
            return 1.0
        chosen = np.ix_(kept, kept)
        direction = np.linalg.pinv(self.variance[chosen], rcond=SINGULAR, hermitian=True) @ self.excess[kept]
        difference = mine.excess[kept] / mine.tokens - others.excess[kept] / others.tokens
        variance = mine.variance[chosen] / mine.tokens**2 + others.variance[chosen] / others.tokens**2
        spread = float(direction @ variance @ direction)
        return float(stats.norm.sf(float(direction @ difference) / math.sqrt(spread))) if spread > 0 else 1.0


def frequent(positions: Sequence[TokenLogprob]) -> tuple[str, ...]:
    """The tokens that the tables expect most often; none that was never drawn, as an end that is not written."""
    expected: Counter[str] = Counter()
    for each in _known(positions):
        expected.update({token: math.exp(value) for token, value in each.top})
    drawn = {each.token for each in positions}
    often = [token for token, count in expected.most_common(MOST_FREQUENT) if count >= FEWEST_FREQUENT]
    return tuple(token for token in often if token in drawn)


def draws(positions: Sequence[TokenLogprob], tokens: Sequence[str] = ()) -> Draws:
    """Count tokens by their probability, or those of `tokens` one by one."""
    known = _known(positions)
    listed = min((len(each.top) for each in known), default=0)
    names = (*map(repr, tokens), OTHERS) if tokens else NAMES
    places = {token: place for place, token in enumerate(tokens)}
    excess, expected, variance = np.zeros(len(names)), np.zeros(len(names)), np.zeros((len(names), len(names)))
    for each in known:
        # A token outside the table may be listed beside it.
        top = sorted(each.top, key=lambda pair: pair[1], reverse=True)[:listed]
        groups = [places.get(token, len(tokens)) if tokens else _group(math.exp(value)) for token, value in top]
        shares = np.zeros(len(names))
        for group, (_, value) in zip(groups, top, strict=True):
            shares[group] += math.exp(value)
        shares[-1] += max(0.0, 1.0 - shares.sum())
        inside = {token: group for group, (token, _) in zip(groups, top, strict=True)}
        excess[inside.get(each.token, len(names) - 1)] += 1
        excess -= shares
        expected += shares
        variance += np.diag(shares) - np.outer(shares, shares)
    return Draws(names=names, tokens=len(known), excess=excess, expected=expected, variance=variance)


def _known(positions: Sequence[TokenLogprob]) -> list[TokenLogprob]:
    """Those with a table and a log-probability.

    Not those whose table holds a token that many are written like: one drawn from outside would be taken for it.
    """
    return [
        each
        for each in positions
        if each.top and each.logprob is not None and not any(stands_for_many(token) for token, _ in each.top)
    ]


def _group(probability: float) -> int:
    return next(group for group, edge in enumerate(EDGES) if probability >= edge)


def _chi_square(difference: Floats, variance: Floats, kept: Sequence[int]) -> float:
    from scipy import stats

    if not kept:
        return 1.0
    chosen = variance[np.ix_(kept, kept)]
    statistic = float(difference[kept] @ np.linalg.pinv(chosen, hermitian=True) @ difference[kept])
    return float(stats.chi2.sf(statistic, max(1, int(np.linalg.matrix_rank(chosen, hermitian=True)))))
