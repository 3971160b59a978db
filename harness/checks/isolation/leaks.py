"""Codewords of other sessions in an answer."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.checks.isolation.facts import Row
from workloads.isolation import LOWEST_DIGIT

STRANGER, TENANT = "stranger", "tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """An answer with somebody else's codeword instead of its own.

    certain: the session gave its own codeword whenever it was asked alone, so that the model does not make numbers up.
    """

    row: Row
    other: str
    codeword: str
    certain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaks:
    """What was found, and how likely it is that numbers made up at random gave as many of the uncertain ones."""

    found: tuple[Leak, ...]
    chance: float

    @property
    def certain(self) -> tuple[Leak, ...]:
        """Those that nothing but another session explains."""
        return tuple(leak for leak in self.found if leak.certain)


def leaks_in(rows: Sequence[Row]) -> Leaks:
    """Every answer that has the codeword of a session other than its own."""
    owners = {row.codeword: row.session for row in rows if row.codeword is not None}
    recalling = _recalling(rows)
    found = tuple(leak for row in rows if (leak := _leak(row, owners, recalling)) is not None)
    strangers = [row for row in rows if row.arm == STRANGER]
    told = [leak for leak in found if leak.row.arm == STRANGER and leak.row.session.startswith(leak.other)]
    others = [row for row in rows if not row.own and row.arm not in (STRANGER, TENANT) and row.session not in recalling]
    stray = [leak for leak in found if not leak.certain and leak.row.arm != STRANGER]
    # A stranger asks for the key of the tenant before it: one number of all there are would be right.
    chances = (_chance(len(told), len(strangers), 1, owners), _chance(len(stray), len(others), len(owners), owners))
    return Leaks(found=found, chance=min(chances))


def _recalling(rows: Sequence[Row]) -> frozenset[str]:
    """Sessions that gave their own codeword whenever they were asked alone."""
    alone: dict[str, list[bool]] = {}
    for row in rows:
        if row.alone and row.codeword is not None:
            alone.setdefault(row.session, []).append(row.own)
    return frozenset(session for session, own in alone.items() if all(own))


def _leak(row: Row, owners: dict[str, str], recalling: frozenset[str]) -> Leak | None:
    if row.own:
        return None
    for number in re.findall(r"\d+", row.text):
        owner = owners.get(number)
        if owner is not None and owner != row.session:
            return Leak(row=row, other=owner, codeword=number, certain=row.session in recalling)
    return None


def _chance(hits: int, answers: int, right: int, codewords: Collection[str]) -> float:
    """Probability of so many hits or more, if `right` of all numbers were a hit and answers were drawn at random."""
    from scipy import stats

    if hits == 0:
        return 1.0
    digits = min(len(codeword) for codeword in codewords)
    share = min(1.0, right / ((10 - LOWEST_DIGIT) * 10 ** (digits - 1)))
    return float(stats.binom.sf(hits - 1, max(hits, answers), share))
