"""How the cost of a token grows with the length of its context: a straight line through the lengths measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.metrics.tokens import input_tokens, output_tokens
from harness.report.compare.ratios import Ratio
from harness.report.compare.sides import Load, Point, Side
from harness.stats.bootstrap import Floats, interval

FEWEST_LENGTHS = 3
PER_TOKENS = 1_024
# Tails are too noisy for a line through a few lengths.
STEADY = ("median_", "mean_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """base_ms: cost at length 0. slope_ms: added by each 1,024 tokens of context, with its 95% interval."""

    base_ms: float
    slope_ms: float
    slope_low_ms: float
    slope_high_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """One latency against context length at one load, both sides, least squares.

    ratio: slope of the other side divided by the first's, with its 95% interval; None where a slope is not above zero.
    """

    metric: str
    load: Load
    letter: str
    lengths: tuple[int, ...]
    a: Line
    b: Line
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None


def growths(ratios: Sequence[Ratio], first: Side, other: Side) -> list[Growth]:
    """One for each median or mean latency and load that has three or more lengths."""
    lines: dict[tuple[str, Load], list[Ratio]] = {}
    for each in ratios:
        if (
            each.metric.startswith(STEADY)
            and each.metric.endswith("_ms")
            and each.point.context_tokens >= 0
            and len(each.a_draws)
        ):
            lines.setdefault((each.metric, each.point.load), []).append(each)
    return [
        _growth(metric, load, line, first, other)
        for (metric, load), line in lines.items()
        if len(line) >= FEWEST_LENGTHS
    ]


def held_tokens(side: Side, point: Point) -> float | None:
    """Mean context of an output token at a point, in the side's own tokens; None if nobody counted the prompts."""
    lengths = [
        sent + (made if made is not None else 0) / 2
        for each in side.rounds[point]
        for record in each.measured.completed
        if (sent := input_tokens(record)) is not None
        for made in [output_tokens(record)]
    ]
    return float(np.mean(lengths)) if lengths else None


def _growth(metric: str, load: Load, line: Sequence[Ratio], first: Side, other: Side) -> Growth:
    a_points = np.array([[_length(first, each.point) for each in line], [each.a for each in line]], dtype=np.float64)
    b_points = np.array([[_length(other, each.point) for each in line], [each.b for each in line]], dtype=np.float64)
    a_slopes = fit(a_points[0], np.stack([each.a_draws for each in line], axis=1))[1]
    b_slopes = fit(b_points[0], np.stack([each.b_draws for each in line], axis=1))[1]
    a, b = _line(a_points, a_slopes), _line(b_points, b_slopes)
    known = a.slope_ms > 0 and b.slope_ms > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = np.where(a_slopes > 0, b_slopes / a_slopes, np.inf)
    low, high = interval(quotients)
    return Growth(
        metric=metric,
        load=load,
        letter=other.letter,
        lengths=tuple(each.point.context_tokens for each in line),
        a=a,
        b=b,
        ratio=b.slope_ms / a.slope_ms if known else None,
        ratio_low=low if known else None,
        ratio_high=high if known else None,
    )


def _length(side: Side, point: Point) -> float:
    measured = held_tokens(side, point)
    return float(point.context_tokens) if measured is None else measured


def fit(lengths: Floats, costs: Floats) -> tuple[Floats, Floats]:
    """Base and slope per 1,024 tokens of each row of costs, float64[n, lengths]."""
    scaled = lengths / PER_TOKENS
    centred = scaled - scaled.mean()
    slope: Floats = (costs @ centred) / (centred @ centred)
    base: Floats = costs.mean(axis=1) - slope * scaled.mean()
    return base, slope


def _line(points: Floats, slopes: Floats) -> Line:
    base, slope = fit(points[0], points[1][None, :])
    low, high = interval(slopes)
    return Line(base_ms=float(base[0]), slope_ms=float(slope[0]), slope_low_ms=low, slope_high_ms=high)
