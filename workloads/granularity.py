"""The rule by which a server reuses prefixes, found from lengths and cached counts alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Point = tuple[int, int]  # prompt tokens, cached tokens
LARGEST_OFFSET = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """cached(N) = max(0, floor((N - offset) / step) * step - drop), in tokens."""

    step: int
    offset: int
    drop: int

    def cached(self, prompt_tokens: int) -> int:
        """What the rule says a prompt of that length, seen often enough, reuses."""
        return max(0, (prompt_tokens - self.offset) // self.step * self.step - self.drop)

    def misses(self, points: Iterable[Point]) -> list[Point]:
        """The points it does not explain."""
        return [point for point in points if self.cached(point[0]) != point[1]]


def fit(points: Sequence[Point]) -> Rule | None:
    """The rule that explains most points; None without a hit.

    Among equals: the largest step (what lies on a grid of 64 lies on one of 32 too), then an offset that engines have
    by design (the last token is always computed, or a whole block is dropped), then no drop, then the last token
    computed where nothing is dropped, then the smallest offset.
    """
    hits = [point for point in points if point[1] > 0]
    if not hits:
        return None
    rules = [rule for step in _steps(hits) for rule in _rules(step, hits)]
    return min(rules, key=lambda rule: _plainness(rule, points))


def _plainness(rule: Rule, points: Sequence[Point]) -> tuple[int, int, bool, int, bool, int]:
    """Smaller is better."""
    designed = rule.offset in (0, 1)
    nothing_computed = rule.drop == rule.offset == 0
    return len(rule.misses(points)), -rule.step, not designed, rule.drop, nothing_computed, rule.offset


def _steps(hits: Sequence[Point]) -> list[int]:
    """Divisors of what all cached counts have in common; and of most of them, should a few be off."""
    counts = sorted({cached for _, cached in hits})
    common = {math.gcd(*counts)}
    common |= {math.gcd(*counts[:index], *counts[index + 1 :]) for index in range(len(counts)) if len(counts) > 2}
    return sorted({divisor for number in common for divisor in _divisors(number)})


def _divisors(number: int) -> set[int]:
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return {*small, *(number // divisor for divisor in small)}


def _rules(step: int, hits: Sequence[Point]) -> list[Rule]:
    """Rules of one step: small offsets and those that a point suggests; nothing or one step dropped."""
    if step == 1:
        offsets = {length - cached for length, cached in hits}
        return [Rule(step=1, offset=offset, drop=0) for offset in offsets]
    offsets = set(range(min(step, LARGEST_OFFSET) + 1))
    offsets |= {length - cached for length, cached in hits if length - cached <= step}
    return [Rule(step=step, offset=offset, drop=drop) for offset in sorted(offsets) for drop in (0, step)]


def boundary_lengths(rule: Rule, shortest: int, longest: int, count: int) -> list[int]:
    """Lengths right at the boundaries of a rule, `count` at most, spread over the multiples of its step that fit."""
    deltas = (0, 1, -1, rule.offset, rule.step // 2, 2, rule.offset + 1, -2, 3, 4)
    if rule.step < 8:
        deltas = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55)
    first = max(1, math.ceil((shortest + 2) / rule.step))
    last = max(first, (longest - 4) // rule.step)
    found: list[int] = []
    for index, delta in enumerate(deltas):
        multiple = first + index * (last - first) // max(1, len(deltas) - 1)
        length = multiple * rule.step + delta
        if 2 <= length <= longest and length not in found:
            found.append(length)
    return found[:count]
