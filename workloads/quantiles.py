"""Empirical quantile tables: drawn from, fitted, read and written as plain data."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from workloads.plan import Json

PERCENTILES = (0, 1, 2, 5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 75, 80, 85, 90, 95, 97, 98, 99, 99.5, 100)
_STEEPEST_TAIL = 60.0


@dataclass(frozen=True, kw_only=True)
class QuantileTable:
    """A distribution as its values at rising `percentiles`, 0 and 100 among them.

    count: values it was made from. mean: of those values; the last interval is bent so that draws have it, because a
    straight line to the largest value would make far too many large ones.
    """

    percentiles: tuple[float, ...]
    values: tuple[float, ...]
    count: int
    mean: float

    def __post_init__(self) -> None:
        if len(self.percentiles) != len(self.values) or len(self.values) < 2:
            raise ValueError("a quantile table needs two or more percentiles with a value each")
        if self.percentiles[0] != 0 or self.percentiles[-1] != 100 or not _rising(self.percentiles):
            raise ValueError("the percentiles of a table must rise from 0 to 100")
        if list(self.values) != sorted(self.values):
            raise ValueError("the values of a quantile table cannot fall")

    def at(self, share: float) -> float:
        """The value below which `share` (0 to 1) of the distribution lies, linear between the table's percentiles."""
        percent = min(100.0, max(0.0, 100 * share))
        index = min(bisect_right(self.percentiles, percent), len(self.values) - 1)
        low, high = self.percentiles[index - 1], self.percentiles[index]
        part = (percent - low) / (high - low)
        if index == len(self.values) - 1:
            part **= self._tail_exponent
        return self.values[index - 1] + part * (self.values[index] - self.values[index - 1])

    @cached_property
    def _tail_exponent(self) -> float:
        """k of last-but-one + (last - last-but-one) w^k, w in 0 to 1, whose mean is (last - last-but-one) / (k + 1)."""
        spans = zip(self.percentiles, self.percentiles[1:-1], self.values, self.values[1:-1], strict=False)
        body = sum((high - low) / 100 * (a + b) / 2 for low, high, a, b in spans)
        share = (100 - self.percentiles[-2]) / 100
        wanted = (self.mean - body) / share - self.values[-2]
        height = self.values[-1] - self.values[-2]
        if height == 0:
            return 1.0
        return min(_STEEPEST_TAIL, max(1.0, height / wanted - 1)) if wanted > 0 else _STEEPEST_TAIL

    def as_json(self) -> Mapping[str, Json]:
        """Plain data; `from_json` reads it back."""
        return {"n": self.count, "mean": self.mean, "quantiles": list(self.values)}

    @classmethod
    def from_json(cls, data: Json, percentiles: Sequence[float]) -> QuantileTable:
        """Read what `as_json` wrote; ValueError says what is missing."""
        if not isinstance(data, Mapping):
            raise ValueError(f"a quantile table is an object with n, mean and quantiles, got {data!r:.60}")
        values = data.get("quantiles")
        if not isinstance(values, Sequence) or isinstance(values, str):
            raise ValueError("a quantile table needs a list of quantiles")
        numbers = tuple(_number(value, "a quantile") for value in values)
        count, mean = _number(data.get("n"), "n"), _number(data.get("mean"), "mean")
        return cls(percentiles=tuple(percentiles), values=numbers, count=int(count), mean=mean)


def fit_table(values: Sequence[float], percentiles: Sequence[float] = PERCENTILES) -> QuantileTable:
    """The table of a sample, interpolated linearly between order statistics; ValueError for an empty one."""
    if not values:
        raise ValueError("a quantile table needs at least one value")
    ordered = sorted(float(value) for value in values)
    return QuantileTable(
        percentiles=tuple(percentiles),
        values=tuple(percentile(ordered, each) for each in percentiles),
        count=len(ordered),
        mean=sum(ordered) / len(ordered),
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """A percentile of sorted values, interpolated linearly between order statistics."""
    position = percent / 100 * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def _rising(values: Sequence[float]) -> bool:
    return all(low < high for low, high in pairwise(values))


def _number(value: Json, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{what} of a quantile table must be a number, got {value!r:.60}")
    return float(value)
