"""The comparison in sentences, and the answer to "has it become slower?"."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from harness.report.compare.comparison import Comparison
from harness.report.compare.crossover import Crossover
from harness.report.compare.growth import Growth
from harness.report.compare.memory import break_even
from harness.report.compare.ratios import Ratio
from harness.report.compare.sides import Side
from harness.report.compare.statistics import Statistic, statistic_named
from harness.report.numbers import number

CONFIDENCE = 0.95
TOLD_CROSSOVERS = ("output_throughput", "median_tpot_ms", "median_ttft_ms")
UNITS = {"context length": "tokens of context", "concurrency": "requests in flight", "arrival rate": "requests/s"}


class Outcome(StrEnum):
    """What a comparison with a baseline says of one figure at one point, or of all."""

    WORSE = "worse"
    UNDECIDED = "cannot be told"
    WITHIN = "within the limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A figure may become worse by `share` (0.05 is 5%) of the baseline's."""

    metric: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One figure at one point against its limit. worse_by: the change for the worse as a share, None if unknown."""

    limit: Limit
    ratio: Ratio
    outcome: Outcome
    worse_by: float | None
    text: str


def parse_limits(items: Sequence[str]) -> list[Limit]:
    """Read "median_tpot_ms=5%" or "=0.05", several parted by spaces or commas; ValueError names what is wrong."""
    limits = []
    for word in " ".join(items).replace(",", " ").split():
        name, equals, text = word.partition("=")
        size = text.removesuffix("%")
        try:
            share = float(size) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = math.nan
        if not equals or not share >= 0:
            raise ValueError(f"{word!r} is not a limit; write for example median_tpot_ms=5%")
        limits.append(Limit(metric=statistic_named(name).name, share=share))
    return limits


def judge(ratios: Sequence[Ratio], limits: Sequence[Limit]) -> list[Judged]:
    """Each limited figure at each point.

    WORSE: resamples show more than the limit, at a confidence shared out over all that is judged (Bonferroni), so that
    many figures do not raise a false alarm together. WITHIN: they show at most the limit, at 95%.
    """
    pairs = [(limit, ratio) for limit in limits for ratio in ratios if ratio.metric == limit.metric]
    return [_judged(limit, ratio, len(pairs)) for limit, ratio in pairs]


def overall(judged: Sequence[Judged]) -> Outcome:
    """WORSE if anything is; UNDECIDED if nothing was judged or anything cannot be told."""
    outcomes = {each.outcome for each in judged}
    if Outcome.WORSE in outcomes:
        return Outcome.WORSE
    return Outcome.WITHIN if outcomes == {Outcome.WITHIN} else Outcome.UNDECIDED


def _judged(limit: Limit, ratio: Ratio, judged_in_all: int) -> Judged:
    where = f"{limit.metric} at {ratio.point.label}"
    if ratio.ratio is None or not len(ratio.log_draws):
        text = f"{where}: cannot be told, too few requests or no figure"
        return Judged(limit=limit, ratio=ratio, outcome=Outcome.UNDECIDED, worse_by=None, text=text)
    factors = ratio.worsening_draws()
    worse_by = (1 / ratio.ratio if ratio.higher_is_better else ratio.ratio) - 1
    surely_above = float(np.quantile(factors, (1 - CONFIDENCE) / judged_in_all)) - 1
    at_most = float(np.quantile(factors, CONFIDENCE)) - 1
    if surely_above > limit.share:
        outcome = Outcome.WORSE
    else:
        outcome = Outcome.WITHIN if at_most <= limit.share else Outcome.UNDECIDED
    text = f"{where}: {outcome} ({change(worse_by)}, at most {change(at_most)}; limit {limit.share:.1%} worse)"
    return Judged(limit=limit, ratio=ratio, outcome=outcome, worse_by=worse_by, text=text)


def change(worse_by: float) -> str:
    """A change in words: 0.031 is "3.1% worse", -0.02 "2.0% better"."""
    return f"{abs(worse_by):.1%} {'worse' if worse_by >= 0 else 'better'}"


def sentences(comparison: Comparison) -> list[str]:
    """The verdict in words, most important first."""
    first, *others = comparison.measured
    told: list[str] = []
    for other in others:
        told.append(_headline(comparison, first, other))
        told += [_crossover(each) for each in comparison.crossovers if _worth_telling(each, other)]
        told += [_growth(each, first, other) for each in comparison.growths if _is_tpot_of(each, other)]
        told += _memory(comparison, first, other)
        told += [_standing(comparison, each, first, other) for each in comparison.statistics[1:]]
    return told


def _headline(comparison: Comparison, first: Side, other: Side) -> str:
    """At how many points each side is ahead in the first figure, by their full names."""
    leading = comparison.statistics[0]
    ratios = comparison.ratios_of(leading.name, other.letter)
    wins = {side.name: sum(each.better is better for each in ratios) for side, better in
            ((other, True), (first, False))}  # fmt: skip
    points = f"{len(ratios)} points of length and load" if len(ratios) > 1 else "the one point measured"
    ahead = [f"{name} is ahead at {count}" for name, count in wins.items() if count]
    if not ahead:
        return f"In {leading.title}, {first.name} and {other.name} cannot be told apart at {points}; {_spread(ratios)}."
    undecided = sum(each.better is None for each in ratios)
    ahead += [f"{undecided} cannot be told from noise"] if undecided else []
    return f"In {leading.title}, at {points}: {', '.join(ahead)}; {_spread(ratios)}."


def _standing(comparison: Comparison, statistic: Statistic, first: Side, other: Side) -> str:
    """At how many points each side is ahead in one figure."""
    ratios = comparison.ratios_of(statistic.name, other.letter)
    ahead = {letter: sum(each.better is better for each in ratios) for letter, better in
             ((other.letter, True), (first.letter, False))}  # fmt: skip
    open_points = sum(each.better is None for each in ratios)
    if all(each.ratio is None for each in ratios):
        return f"{_title(statistic)}: no ratio can be formed, because a side has no figure or its figure is zero."
    counts = [f"{letter} is ahead at {count}" for letter, count in ahead.items() if count]
    counts += [f"{open_points} cannot be told from noise"] if open_points else []
    points = f"{len(ratios)} points" if len(ratios) > 1 else "the one point"
    return f"{_title(statistic)} ({_sense(statistic)}): of {points}, {', '.join(counts)}; {_spread(ratios)}."


def _spread(ratios: Sequence[Ratio]) -> str:
    """The smallest and the largest ratio."""
    known = [each.ratio for each in ratios if each.ratio is not None]
    if not known:
        return "no ratio can be formed"
    between = f"from {number(min(known))} to {number(max(known))}" if len(known) > 1 else number(known[0])
    return f"the ratio {ratios[0].letter}/{ratios[0].first_letter} is {between}"


def _title(statistic: Statistic) -> str:
    return statistic.title[0].upper() + statistic.title[1:]


def _sense(statistic: Statistic) -> str:
    return "higher is better" if statistic.higher_is_better else "lower is better"


def _worth_telling(each: Crossover, other: Side) -> bool:
    return each.letter == other.letter and each.shown and each.metric in TOLD_CROSSOVERS


def _is_tpot_of(each: Growth, other: Side) -> bool:
    return each.letter == other.letter and each.metric == "median_tpot_ms"


def _crossover(each: Crossover) -> str:
    unit = UNITS[each.axis]
    title = statistic_named(each.metric).title
    return (
        f"In {title} at {each.fixed}, {each.ahead_before} is ahead below and {each.ahead_after} above about"
        f" {number(each.at)} {unit} ({bounds(each)})."
    )


def bounds(each: Crossover) -> str:
    """The interval of a crossover; ends beyond what was measured are said so."""
    assert each.low is not None and each.high is not None
    low = f"below {number(each.first)}" if each.low <= 0 else number(each.low)
    high = f"above {number(each.last)}" if math.isinf(each.high) else number(each.high)
    return f"95% interval {low} to {high}"


def _growth(each: Growth, first: Side, other: Side) -> str:
    slopes = [
        f"{number(line.slope_ms)} ms ({number(line.slope_low_ms)} to {number(line.slope_high_ms)}) in {side.letter}"
        for line, side in ((each.a, first), (each.b, other))
    ]
    told = f"At {each.load.label}, each 1,024 tokens of context add {' and '.join(slopes)} to the median TPOT"
    if each.ratio is None or each.ratio_low is None or each.ratio_high is None:
        return f"{told}."
    between = f"{number(each.ratio_low)} to {number(each.ratio_high)}"
    return f"{told}: {other.letter} grows {number(each.ratio)} times as fast ({between})."


def _memory(comparison: Comparison, first: Side, other: Side) -> list[str]:
    told = []
    for what, figures in (
        ("Computed from the configs", comparison.memory),
        ("By the servers' own gauges", comparison.held),
    ):
        sides: Mapping[str, object] = figures
        if first.letter in sides and other.letter in sides:
            told.append(
                f"{what}, a sequence's memory is {break_even(figures[first.letter], figures[other.letter]).text}."
            )
    return told
