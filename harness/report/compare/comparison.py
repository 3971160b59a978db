"""Everything that is worked out about a set of sides, before any of it is put into words or pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.report.compare.alike import Unlike, unlike
from harness.report.compare.crossover import Crossover, crossovers
from harness.report.compare.growth import Growth, growths
from harness.report.compare.memory import HeldMemory, MemoryModelOf, held_at_lengths
from harness.report.compare.ratios import Ratio, ratios_at
from harness.report.compare.sides import Point, Side, shared_points
from harness.report.compare.statistics import COUNTED, DEFAULT_METRICS, Statistic, statistic_named

S_PER_HOUR = 3_600
MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a million tokens cost a side at a point, in the currency of its price; None: nobody counted the tokens."""

    letter: str
    point: Point
    price_per_hour: float
    per_million_output: float | None
    per_million_tokens: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Sides and what came of comparing each with the first.

    points: where every measured side was measured. apart: points that only some sides have. interleaved: the cells of
    the sides took turns, so that the machine's drift does not favour one.
    """

    sides: tuple[Side, ...]
    points: tuple[Point, ...]
    apart: tuple[str, ...]
    statistics: tuple[Statistic, ...]
    ratios: tuple[Ratio, ...]
    crossovers: tuple[Crossover, ...]
    growths: tuple[Growth, ...]
    unlike: tuple[Unlike, ...]
    memory: Mapping[str, MemoryModelOf]
    held: Mapping[str, HeldMemory]
    costs: tuple[Cost, ...]
    interleaved: bool

    @property
    def measured(self) -> list[Side]:
        """The sides that are runs, the one that the others are divided by first."""
        return [side for side in self.sides if side.run is not None]

    @property
    def published(self) -> list[Side]:
        """The sides that others published."""
        return [side for side in self.sides if side.published is not None]

    def ratios_of(self, metric: str, letter: str) -> list[Ratio]:
        """The ratios of one figure and side, by point."""
        return [each for each in self.ratios if each.metric == metric and each.letter == letter]


def compare(
    sides: Sequence[Side],
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    prices: Mapping[str, float] | None = None,
    memory: Mapping[str, MemoryModelOf] | None = None,
) -> Comparison:
    """Compare every measured side with the first one. ValueError if no two share a point, or a metric is unknown."""
    measured = [side for side in sides if side.run is not None]
    points = shared_points(measured)
    if not points:
        raise ValueError("the runs have no finished cell in common: no length and load was measured in all")
    first, others = measured[0], measured[1:]
    wanted = [statistic_named(name) for name in metrics]
    there = [each for each in wanted if any(_known(each, side, points) for side in measured)]
    ratios = [ratio for other in others for ratio in ratios_at(there, first, other, points)]
    by_side = [[each for each in ratios if each.letter == other.letter] for other in others]
    return Comparison(
        sides=tuple(sides),
        points=tuple(points),
        apart=tuple(_apart(measured, points)),
        statistics=tuple(there),
        ratios=tuple(ratios),
        crossovers=tuple(each for one in by_side for each in crossovers(one)),
        growths=tuple(each for one, other in zip(by_side, others, strict=True) for each in growths(one, first, other)),
        unlike=tuple(each for other in others for each in unlike(first, other, points)),
        memory={} if memory is None else memory,
        held=held_at_lengths(measured),
        costs=tuple(_costs(measured, points, {} if prices is None else prices)),
        interleaved=_interleaved(measured),
    )


def _known(statistic: Statistic, side: Side, points: Sequence[Point]) -> bool:
    return any(statistic.value(side.rounds[point]) is not None for point in points)


def _apart(measured: Sequence[Side], points: Sequence[Point]) -> list[str]:
    lonely = {side.letter: [point.label for point in side.rounds if point not in points] for side in measured}
    return [f"{letter} alone: {', '.join(labels)}" for letter, labels in lonely.items() if labels]


def _costs(measured: Sequence[Side], points: Sequence[Point], prices: Mapping[str, float]) -> list[Cost]:
    priced = [side for side in measured if side.letter in prices]
    return [
        Cost(
            letter=side.letter,
            point=point,
            price_per_hour=prices[side.letter],
            per_million_output=_per_million(prices[side.letter], "output_throughput", side, point),
            per_million_tokens=_per_million(prices[side.letter], "total_token_throughput", side, point),
        )
        for point in points
        for side in priced
    ]


def _per_million(price_per_hour: float, throughput: str, side: Side, point: Point) -> float | None:
    per_s = COUNTED[throughput].value(side.rounds[point])
    return None if not per_s else price_per_hour / (per_s * S_PER_HOUR) * MILLION


def _interleaved(measured: Sequence[Side]) -> bool:
    """Whether the sides are those of one duel."""
    duels = {side.run.info.options.get("duel") for side in measured if side.run is not None}
    return len(duels) == 1 and None not in duels
