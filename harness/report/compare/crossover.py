"""Where one side overtakes the other: along context length at one load, or along load at one length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.report.compare.ratios import Ratio
from harness.stats.bootstrap import Floats, interval

LENGTH = "context length"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """Along one axis, one figure of one side against the first, everything else fixed.

    axis: "context length", "concurrency" or "arrival rate"; fixed: what stays the same. first, last: ends of what was
    measured.
    at: where the ratio passes 1, interpolated between neighbours on logarithmic axes; None if it does not.
    low, high: the 95% interval of it; 0 and infinity stand for beyond the measured ends. ahead_before, ahead_after:
    letters of the side ahead on either side of it, None where that cannot be told. seen: share of resamples that cross.
    """

    metric: str
    letter: str
    axis: str
    fixed: str
    first: float
    last: float
    at: float | None
    low: float | None
    high: float | None
    ahead_before: str | None
    ahead_after: str | None
    seen: float

    @property
    def shown(self) -> bool:
        """Whether both sides are ahead somewhere, each beyond noise."""
        ends = {self.ahead_before, self.ahead_after}
        return self.at is not None and None not in ends and len(ends) == 2


def crossovers(ratios: Sequence[Ratio]) -> list[Crossover]:
    """One for each figure, axis and value of the other axis that has two or more points; context lengths come first."""
    lines: dict[tuple[str, str, str], list[Ratio]] = {}
    for each in ratios:
        if each.ratio is None or not len(each.log_draws):
            continue
        if each.point.context_tokens >= 0:
            lines.setdefault((each.metric, LENGTH, each.point.load.label), []).append(each)
        lines.setdefault((each.metric, each.point.load.axis, _length_label(each)), []).append(each)
    ordered = sorted(lines.items(), key=lambda item: item[0][1] != LENGTH)
    return [
        _crossover(metric, axis, fixed, sorted(line, key=lambda each: _place(each, axis)))
        for (metric, axis, fixed), line in ordered
        if len(line) > 1
    ]


def _length_label(ratio: Ratio) -> str:
    tokens = ratio.point.context_tokens
    return f"{tokens:,} tokens" if tokens >= 0 else "the workload's own length"


def _place(ratio: Ratio, axis: str) -> float:
    return ratio.point.context_tokens if axis == LENGTH else ratio.point.load.level


def _crossover(metric: str, axis: str, fixed: str, line: list[Ratio]) -> Crossover:
    places = np.array([_place(each, axis) for each in line], dtype=np.float64)
    logs = np.array([np.log(each.ratio) for each in line if each.ratio is not None])
    draws = np.stack([each.log_draws for each in line], axis=1)
    direction = 1.0 if logs[-1] >= logs[0] else -1.0
    at = float(crossings(places, logs[None, :], direction)[0])
    resampled = crossings(places, draws, direction)
    inside = np.isfinite(resampled) & (resampled > 0)
    low, high = interval(resampled)
    letters = [each.ahead for each in line]
    crosses = np.isfinite(at) and at > 0
    return Crossover(
        metric=metric,
        letter=line[0].letter,
        axis=axis,
        fixed=fixed,
        first=float(places[0]),
        last=float(places[-1]),
        at=at if crosses else None,
        low=low if crosses else None,
        high=high if crosses else None,
        ahead_before=_ahead([each for each, place in zip(letters, places, strict=True) if not crosses or place < at]),
        ahead_after=_ahead([each for each, place in zip(letters, places, strict=True) if not crosses or place >= at]),
        seen=float(inside.mean()),
    )


def _ahead(letters: Sequence[str | None]) -> str | None:
    """Who is ahead over a stretch: the one side shown to be, at one point at least, and never the other."""
    shown = {each for each in letters if each is not None}
    return shown.pop() if len(shown) == 1 else None


def crossings(places: Floats, logs: Floats, direction: float) -> Floats:
    """Where each row of log ratios, float64[n, points], passes zero in `direction` (+1 rising, -1 falling).

    Linear between neighbours in the logarithm of place and ratio. 0: above zero (as seen in that direction) from the
    first point on; infinity: never.
    """
    above = direction * logs >= 0
    first = above.argmax(axis=1)
    found = np.full(len(logs), np.inf)
    found[above[:, 0]] = 0.0
    for row in np.flatnonzero(above.any(axis=1) & ~above[:, 0]):
        after = first[row]
        before_log, after_log = logs[row, after - 1], logs[row, after]
        part = before_log / (before_log - after_log)
        found[row] = np.exp((1 - part) * np.log(places[after - 1]) + part * np.log(places[after]))
    return found
