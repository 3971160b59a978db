"""The tests of one family of pairs: many prompts a little wrong, few prompts very wrong, tokens that changed for good.

Score of a pair: S = ln[(E + f²) / (N + f²)], E the pair's squared gap, N the largest of its own controls and of the
family's median control, f a floor; clipped to [-3, 5].

mean: one-sided t of S over prompts against ln 2.25, and the median pair above a gate in nats; on the first 16
positions and on the first 4. absolute (cross paths, and prompts too short to be cached): the same against the largest
harmless offset seen on any engine, 0.25 nats, in place of the far control, because a memory that was lost is still lost
far from the boundary. sparse: single prompts with S > 2.5 and twice the gate (where shapes are alike, twice the gate of
unlike ones: single prompts may be routed otherwise). hard: single prompts whose token changed in every replicate
against a clear preference; pairs of one shape are left out, for they are pairs of their arm too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from harness.checks.eviction.pairs import Pair, Path
from harness.stats.tests import SD_FLOOR, t_greater, t_quantile

RATIO = math.log(2.25)
SPARSE = 2.5
CLIP = (-3.0, 5.0)
FLOOR = {Path.CROSS: 0.02, Path.SHAPED: 0.02, Path.REACH: 0.02, Path.SAME: 0.01, Path.PLACEBO: 0.01}
# REACH: three times the largest median that far resumes had in 90 runs on healthy servers.
GATE = {Path.CROSS: 0.15, Path.SHAPED: 0.06, Path.REACH: 0.1, Path.SAME: 0.03, Path.PLACEBO: 0.03}
BENIGN_OFFSET = 0.25
HARD_GAP = 1.0
CONFIRM_LEVEL = 0.01
FEWEST = 8
SMALLEST_EFFECT, LARGEST_EFFECT, BISECTIONS = 1e-3, 10.0, 10

Score = Callable[[Pair], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One test on one family; p_value is None for tests that count prompts, which are then in `prompts`."""

    family: str
    test: str
    alarm: bool
    count: int
    statistic: float
    p_value: float | None = None
    prompts: tuple[str, ...] = ()


def scores(pairs: Sequence[Pair]) -> list[float]:
    """S of each pair over the first 16 positions; pairs without a null are left out."""
    return _scores(pairs, lambda pair: pair.near, lambda pair: pair.null)


def first_scores(pairs: Sequence[Pair]) -> list[float]:
    """S of each pair over the first 4 positions."""
    return _scores(pairs, lambda pair: pair.near_first, lambda pair: pair.null_first)


def absolute_scores(pairs: Sequence[Pair]) -> list[float]:
    """S of the first 4 positions against the largest harmless offset and what was measured without the far control."""
    return _scores(pairs, lambda pair: pair.near_first, _ceiling)


def _ceiling(pair: Pair) -> float | None:
    return None if pair.floor is None else max(pair.floor, BENIGN_OFFSET**2)


def _scores(pairs: Sequence[Pair], near: Score, null: Callable[[Pair], float | None]) -> list[float]:
    known = [(pair, value) for pair in pairs if (value := null(pair)) is not None]
    if not known:
        return []
    usual = median(value for _, value in known)
    return [_score(near(pair), max(value, usual), FLOOR[pair.path]) for pair, value in known]


def _score(near: float, null: float, floor: float) -> float:
    ratio = math.log((near + floor**2) / (null + floor**2))
    return min(max(ratio, CLIP[0]), CLIP[1])


def gate_of(pairs: Sequence[Pair]) -> float:
    """Nats below which a median pair is no finding; a null borrowed from hits needs the wider one."""
    return max(GATE[Path.CROSS] if pair.proxy else GATE[pair.path] for pair in pairs)


def run_tests(pairs: Sequence[Pair], level: float, *, fewest: int = FEWEST) -> list[Result]:
    """All tests of one family at `level`; means need `fewest` prompts."""
    if not pairs:
        return []
    results = [
        _mean(pairs, "mean", scores(pairs), [pair.near for pair in pairs], level, fewest),
        _mean(pairs, "mean4", first_scores(pairs), [pair.near_first for pair in pairs], level, fewest),
        _sparse(pairs),
    ]
    if pairs[0].path is not Path.SHAPED:
        results.append(_hard(pairs))
    if pairs[0].path is Path.CROSS or all(pair.null is None for pair in pairs):
        firsts = [pair.near_first for pair in pairs]
        results.append(_mean(pairs, "absolute", absolute_scores(pairs), firsts, level, fewest))
    return [result for result in results if result.count]


def _mean(
    pairs: Sequence[Pair], test: str, values: Sequence[float], gaps: Sequence[float], level: float, fewest: int
) -> Result:
    p_value = t_greater(values, RATIO)
    loud = bool(gaps) and math.sqrt(median(gaps)) > gate_of(pairs)
    alarm = len(values) >= fewest and p_value <= level and loud
    mean = sum(values) / len(values) if values else 0.0
    return Result(family=pairs[0].family, test=test, alarm=alarm, count=len(values), statistic=mean, p_value=p_value)


def _sparse(pairs: Sequence[Pair]) -> Result:
    loud = 2 * (GATE[Path.CROSS] if pairs[0].path in (Path.SHAPED, Path.REACH) else gate_of(pairs))
    judged = [pair for pair in pairs if pair.null is not None]
    values = scores(judged)
    found = {
        pair.prompt: value
        for pair, value in zip(judged, values, strict=True)
        if value > SPARSE and math.sqrt(pair.near) > loud
    }
    return Result(
        family=pairs[0].family,
        test="sparse",
        alarm=bool(found),
        count=len(values),
        statistic=max(values, default=0.0),
        prompts=tuple(found),
    )


def _hard(pairs: Sequence[Pair]) -> Result:
    """A flip must beat 1 nat on either side, eight times the prompt's own noise, and twice any control's flip.

    The far control is left out: a lost memory flips its tokens too. What a lasting offset of 0.25 nats could flip has a
    gap of 1 nat on both sides once in 10^8 positions.
    """
    judged = [(pair, pair.floor) for pair in pairs if pair.floor is not None]
    largest_null = max((pair.null_flip for pair, _ in judged), default=0.0)
    flips = {
        pair.prompt: pair.flip
        for pair, floor in judged
        if pair.flip is not None and pair.flip > max(HARD_GAP, 8 * math.sqrt(floor), 2 * largest_null)
    }
    return Result(
        family=pairs[0].family,
        test="hard",
        alarm=bool(flips),
        count=len(judged),
        statistic=max((pair.flip for pair, _ in judged if pair.flip is not None), default=0.0),
        prompts=tuple(flips),
    )


def smallest_effect(pairs: Sequence[Pair], level: float) -> float | None:
    """RMS nats that the mean test would have found with probability 0.99; None for fewer than two scored pairs.

    A difference of d added to every pair is sought for which the t-test and the gate would both alarm; pairs that are
    apart already count as no louder than their null. The result is raised by half, because a fault that sits at a few
    positions is found less well than one spread over all.
    """
    nulls = [pair.null for pair in pairs if pair.null is not None]
    if len(nulls) < 2:
        return None
    usual, floor, gate = median(nulls), FLOOR[pairs[0].path], gate_of(pairs)
    known = [(pair.near, max(pair.null, usual)) for pair in pairs if pair.null is not None]
    quiet = [(min(near, null), null) for near, null in known]
    needed = t_quantile(1 - level, len(quiet)) + t_quantile(0.99, len(quiet))

    def found(effect: float) -> bool:
        values = [_score(near + effect**2, null, floor) for near, null in quiet]
        spread = max(float(np.std(values, ddof=1)), SD_FLOOR)
        loud = math.sqrt(median(near for near, _ in quiet) + effect**2) > gate
        return loud and (float(np.mean(values)) - RATIO) * math.sqrt(len(values)) / spread > needed

    low, high = SMALLEST_EFFECT, LARGEST_EFFECT
    if not found(high):
        return math.inf
    for _ in range(BISECTIONS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if found(middle) else (middle, high)
    return 1.5 * high
