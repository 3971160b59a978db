"""What an arm lost against the cold answers, by documents: the needles of one stand or fall together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.recall.facts import Row
from harness.stats.tests import discordant_greater
from workloads.recall import COLD


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One needle asked cold and in an arm."""

    cold: Row
    other: Row

    @property
    def lost(self) -> int:
        """1 if the arm lost it, -1 if it found it, 0 if both say the same."""
        return int(self.cold.right) - int(self.other.right)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One arm over some documents. worse, better: documents that lost needles on balance, that gained some."""

    pairs: tuple[Pair, ...]
    documents: int
    worse: int
    better: int

    @property
    def chance(self) -> float:
        """How likely so many documents get worse by chance: a sign test over documents."""
        return discordant_greater(self.worse, self.better)

    @property
    def lost(self) -> list[Pair]:
        """The needles that were lost."""
        return [pair for pair in self.pairs if pair.lost > 0]


def loss(rows: Sequence[Row], arm: str, round_index: int | None = None) -> Loss:
    """What an arm lost where it was exercised and the needle was asked cold too; round None means all of them."""
    chosen = [row for row in rows if round_index in (None, row.round_index)]
    cold = {(row.document, row.needle): row for row in chosen if row.arm == COLD}
    pairs = tuple(
        Pair(cold=cold[row.document, row.needle], other=row)
        for row in chosen
        if row.arm == arm and row.exercised and (row.document, row.needle) in cold
    )
    balance: dict[str, int] = {}
    for pair in pairs:
        balance[pair.other.document] = balance.get(pair.other.document, 0) + pair.lost
    return Loss(
        pairs=pairs,
        documents=len({pair.other.document for pair in pairs if pair.cold.right or pair.other.right}),
        worse=sum(each > 0 for each in balance.values()),
        better=sum(each < 0 for each in balance.values()),
    )
