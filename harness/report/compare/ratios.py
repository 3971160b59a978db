"""How one side's figures relate to another's, with the interval that noise allows."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from harness.report.compare.sides import Point, Round, Side
from harness.report.compare.statistics import Rows, Statistic
from harness.stats.bootstrap import Floats, block_groups, chunks, group_draws, interval

REPLICATES = 2_000
FEWEST_GROUPS = 8
PAIRED = "paired by request"
APART = "not paired: blocks of requests in the order of sending"
BLOCKS = "blocks of the server's counter samples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One figure of a side divided by the first side's, at one point.

    first_letter, letter: the two sides. a, b: their figures, None where a side has none. ratio: b / a. low, high: its
    95% interval, None if too few requests were there for one. pairs: requests that both sides answered, None if not
    paired. log_draws: resampled logarithms of the ratio; a_draws, b_draws: the figures they come from.
    """

    metric: str
    higher_is_better: bool
    point: Point
    first_letter: str
    letter: str
    a: float | None
    b: float | None
    ratio: float | None
    low: float | None = None
    high: float | None = None
    pairs: int | None = None
    requests: tuple[int, int] = (0, 0)
    rounds: int = 1
    method: str | None = None
    log_draws: Floats = field(default_factory=lambda: np.empty(0))
    a_draws: Floats = field(default_factory=lambda: np.empty(0))
    b_draws: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def shown(self) -> bool:
        """Whether the difference is beyond noise: the interval leaves 1 out."""
        return self.low is not None and self.high is not None and (self.low > 1 or self.high < 1)

    @property
    def better(self) -> bool | None:
        """Whether the other side is ahead of the first; None if that cannot be told."""
        if not self.shown or self.ratio is None:
            return None
        return (self.ratio > 1) == self.higher_is_better

    @property
    def ahead(self) -> str | None:
        """The letter of the side that is ahead; None if that cannot be told."""
        return None if self.better is None else self.letter if self.better else self.first_letter

    def worsening_draws(self) -> Floats:
        """Resampled factors by which the other side is worse; above 1 is worse."""
        worse: Floats = np.exp(-self.log_draws if self.higher_is_better else self.log_draws)
        return worse


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resampled:
    a: Floats
    b: Floats
    pairs: int | None
    requests: tuple[int, int]
    method: str


def ratios_at(statistics: Sequence[Statistic], first: Side, other: Side, points: Sequence[Point]) -> list[Ratio]:
    """Every figure at every point, in that order of nesting."""
    return [ratio_at(each, first, other, point) for each in statistics for point in points]


def ratio_at(statistic: Statistic, first: Side, other: Side, point: Point) -> Ratio:
    """One figure at one point.

    Sessions are resampled, the same ones on both sides where both asked the same; where there are several rounds, the
    spread between their ratios widens the interval by what drifts from round to round.
    """
    rounds = first.rounds[point], other.rounds[point]
    a, b = statistic.value(rounds[0]), statistic.value(rounds[1])
    ratio = b / a if a and b is not None and b > 0 else None
    drawn = _resampled(statistic, rounds, _rng(statistic.name, point)) if ratio is not None else None
    known = Ratio(
        metric=statistic.name,
        higher_is_better=statistic.higher_is_better,
        point=point,
        first_letter=first.letter,
        letter=other.letter,
        a=a,
        b=b,
        ratio=ratio,
        rounds=min(len(rounds[0]), len(rounds[1])),
    )
    return known if drawn is None or ratio is None else _with_interval(known, ratio, drawn, statistic, rounds)


def _with_interval(
    known: Ratio, ratio: float, drawn: _Resampled, statistic: Statistic, rounds: tuple[Sequence[Round], Sequence[Round]]
) -> Ratio:
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.log(drawn.b) - np.log(drawn.a)
    spread = np.where(np.isfinite(spread), spread, np.nan)
    centred = np.log(ratio) + spread - np.nanmedian(spread)
    draws = np.nan_to_num(centred, nan=float(np.log(ratio))) + _drift(statistic, rounds, known)
    low, high = interval(draws)
    assert known.a is not None and known.b is not None
    return replace(
        known,
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        pairs=drawn.pairs,
        requests=drawn.requests,
        method=drawn.method,
        log_draws=draws,
        a_draws=drawn.a * (known.a / np.nanmedian(drawn.a)),
        b_draws=drawn.b * (known.b / np.nanmedian(drawn.b)),
    )


def _drift(statistic: Statistic, rounds: tuple[Sequence[Round], Sequence[Round]], known: Ratio) -> Floats:
    """Normal draws with the standard error of the mean of the rounds' log ratios; zero for one round."""
    logs = []
    for one, two in zip(*rounds, strict=False):
        a, b = statistic.value([one]), statistic.value([two])
        if a and b:
            logs.append(np.log(b / a))
    if len(logs) < 2:
        return np.zeros(REPLICATES)
    error = float(np.std(logs, ddof=1)) / np.sqrt(len(logs))
    return _rng(f"{statistic.name}/drift", known.point).normal(0.0, error, REPLICATES)


def _resampled(
    statistic: Statistic, rounds: tuple[Sequence[Round], Sequence[Round]], rng: np.random.Generator
) -> _Resampled | None:
    """Figures of both sides under the same (paired) or independent draws; None with too few groups to draw from."""
    rows = [[statistic.rows(each) for each in side] for side in rounds]
    counts = sum(len(each.columns) for each in rows[0]), sum(len(each.columns) for each in rows[1])
    matched = _matched(rows[0], rows[1]) if _same_plan(rounds) else None
    if matched is not None:
        one, two = matched
        if _groups(one) < FEWEST_GROUPS:
            return None
        a, b = _draw_together(statistic, one, two, rng)
        return _Resampled(a=a, b=b, pairs=len(one.columns), requests=counts, method=PAIRED)
    one, two = (_in_blocks(side) for side in rows)
    if min(_groups(one), _groups(two)) < FEWEST_GROUPS:
        return None
    a, b = (_draw_together(statistic, each, each, rng)[0] for each in (one, two))
    method = BLOCKS if rows[0][0].keys is None else APART
    return _Resampled(a=a, b=b, pairs=None, requests=counts, method=method)


def _draw_together(statistic: Statistic, one: Rows, two: Rows, rng: np.random.Generator) -> tuple[Floats, Floats]:
    drawn = group_draws(_groups(one), REPLICATES, rng)
    parts: tuple[list[Floats], list[Floats]] = ([], [])
    for part in chunks(REPLICATES, len(one.columns)):
        weights = drawn[part][:, one.groups].astype(np.float64)
        parts[0].append(statistic.combine(one.columns, weights))
        parts[1].append(statistic.combine(two.columns, weights))
    return np.concatenate(parts[0]), np.concatenate(parts[1])


def _same_plan(rounds: tuple[Sequence[Round], Sequence[Round]]) -> bool:
    """Whether both sides were asked the same, request by request."""
    digests = {None if each.plan is None else each.plan.digest for side in rounds for each in side}
    return len(digests) == 1 and None not in digests


def _matched(one: Sequence[Rows], two: Sequence[Rows]) -> tuple[Rows, Rows] | None:
    """The rows of requests that both sides answered in the same round; None if rows are not requests."""
    taken: tuple[list[Floats], list[Floats]] = ([], [])
    groups: list[tuple[int, int]] = []
    for index, (a, b) in enumerate(zip(one, two, strict=False)):
        if a.keys is None or b.keys is None:
            return None
        places = {key: place for place, key in enumerate(b.keys)}
        for place, key in enumerate(a.keys):
            if key in places:
                taken[0].append(a.columns[place])
                taken[1].append(b.columns[places[key]])
                groups.append((index, int(a.groups[place])))
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    grouped = np.array([numbers[group] for group in groups], dtype=np.int64)
    shaped = [np.array(side) if side else np.empty((0, 1)) for side in taken]
    return (
        Rows(keys=(), groups=grouped, columns=shaped[0]),
        Rows(keys=(), groups=grouped, columns=shaped[1]),
    )


def _in_blocks(side: Sequence[Rows]) -> Rows:
    """All rows of a side in blocks of neighbours in time."""
    joined = [each.columns for each in side if len(each.columns)]
    columns = np.concatenate(joined) if joined else np.empty((0, 1))
    return Rows(keys=None, groups=block_groups(len(columns)), columns=columns)


def _groups(rows: Rows) -> int:
    return int(rows.groups.max()) + 1 if len(rows.groups) else 0


def _rng(name: str, point: Point) -> np.random.Generator:
    """The same draws whenever the same figure is compared at the same point."""
    return np.random.default_rng([zlib.crc32(name.encode()), zlib.crc32(point.label.encode())])
