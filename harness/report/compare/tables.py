"""The tables of a comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from harness.report.compare.alike import own_lengths
from harness.report.compare.comparison import Comparison
from harness.report.compare.crossover import Crossover
from harness.report.compare.memory import break_even
from harness.report.compare.ratios import Ratio
from harness.report.compare.statistics import Statistic, statistic_named
from harness.report.compare.verdict import Judged
from harness.report.numbers import NOT_REPORTED, number, percent, whole
from harness.report.tables import Table, Value

MIB = 1 << 20
UNCLEAR = "cannot be told"


def tables(comparison: Comparison, judged: Sequence[Judged] = ()) -> list[Table]:
    """Every table that has a row, in the order of the page."""
    made = [
        *([_judged(judged)] if judged else []),
        *(_ratios(comparison, statistic) for statistic in comparison.statistics),
        _crossovers(comparison),
        _growths(comparison),
        _lengths(comparison),
        _memory_rates(comparison),
        _break_evens(comparison),
        _memory_lengths(comparison),
        _costs(comparison),
        _published(comparison),
    ]
    return [table for table in made if table.rows]


def ratio_text(ratio: Ratio) -> str:
    """The ratio with its interval: "1.31 (1.24 to 1.39)"."""
    if ratio.ratio is None:
        return NOT_REPORTED
    if ratio.low is None or ratio.high is None:
        return f"{ratio.ratio:.2f} (too few for an interval)"
    return f"{ratio.ratio:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def show_of(statistic: Statistic) -> Callable[[float | None], str]:
    """How values of a figure are written."""
    return percent if statistic.unit == "share" else number


def _length(context_tokens: int) -> str:
    return NOT_REPORTED if context_tokens < 0 else f"{context_tokens:,}"


def _load_heading(comparison: Comparison) -> str:
    """What the loads are: "concurrency", "arrivals" under open load, "load" where there are both."""
    opened = {bool(point.load.arrivals) for point in comparison.points}
    return "load" if len(opened) > 1 else "arrivals" if opened == {True} else "concurrency"


def _ratios(comparison: Comparison, statistic: Statistic) -> Table:
    first, *others = comparison.measured
    show = show_of(statistic)
    headings = ["context", _load_heading(comparison), f"{first.letter}, {statistic.unit}"]
    for other in others:
        headings += [f"{other.letter}, {statistic.unit}", f"{other.letter}/{first.letter} (95% interval)", "ahead"]
    rows, values = [], []
    for point in comparison.points:
        found = [each for each in comparison.ratios if each.metric == statistic.name and each.point == point]
        row = [_length(point.context_tokens), point.load.text, show(found[0].a if found else None)]
        exact: list[Value] = [point.context_tokens, point.load.text, found[0].a if found else None]
        for each in found:
            row += [show(each.b), ratio_text(each), UNCLEAR if each.ahead is None else each.ahead]
            exact += [each.b, each.ratio, each.low, each.high]
        rows.append(tuple(row))
        values.append(tuple(exact))
    names = ["context_tokens", _load_heading(comparison), first.letter]
    for other in others:
        names += [other.letter, *(f"{other.letter}/{first.letter}{part}" for part in ("", "_low", "_high"))]
    better = "higher is better" if statistic.higher_is_better else "lower is better"
    return Table(
        slug=f"ratio_{statistic.name}",
        title=f"{statistic.title[0].upper()}{statistic.title[1:]} ({better})",
        headings=tuple(headings),
        rows=tuple(rows),
        groups=(),
        metrics=tuple(names),
        values=tuple(values),
    )


def _plain(slug: str, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table whose CSV holds what the page shows."""
    kept = tuple(tuple(row) for row in rows)
    return Table(
        slug=slug, title=title, headings=tuple(headings), rows=kept, groups=(), metrics=tuple(headings), values=kept
    )


def _crossovers(comparison: Comparison) -> Table:
    first, *others = comparison.measured
    rows = [
        [
            statistic_named(each.metric).title + (f", {each.letter}/{first.letter}" if len(others) > 1 else ""),
            each.axis,
            each.fixed,
            _where(each),
            UNCLEAR if each.ahead_before is None else each.ahead_before,
            UNCLEAR if each.ahead_after is None else each.ahead_after,
        ]
        for each in comparison.crossovers
    ]
    return _plain(
        "crossovers",
        "Where one side overtakes the other",
        ["figure", "along", "at", "crossover (95% interval)", "ahead below", "ahead above"],
        rows,
    )


def _where(each: Crossover) -> str:
    if each.at is None or each.low is None or each.high is None:
        return f"none from {whole(each.first)} to {whole(each.last)}"
    low = f"below {whole(each.first)}" if each.low <= 0 else number(each.low)
    high = f"above {whole(each.last)}" if math.isinf(each.high) else number(each.high)
    return f"{number(each.at)} ({low} to {high})"


def _growths(comparison: Comparison) -> Table:
    first = comparison.measured[0]
    rows = []
    for each in comparison.growths:
        for letter, line in ((first.letter, each.a), (each.letter, each.b)):
            slope = f"{number(line.slope_ms)} ({number(line.slope_low_ms)} to {number(line.slope_high_ms)})"
            rows.append([statistic_named(each.metric).title, each.load.text, letter, number(line.base_ms), slope])
        if each.ratio is not None and each.ratio_low is not None and each.ratio_high is not None:
            ratio = f"{number(each.ratio)} times ({number(each.ratio_low)} to {number(each.ratio_high)})"
            name = f"{each.letter}/{first.letter}"
            rows.append([statistic_named(each.metric).title, each.load.text, name, NOT_REPORTED, ratio])
    return _plain(
        "growth",
        "How cost grows with context: a straight line through the lengths measured",
        ["figure", _load_heading(comparison), "side", "at length 0, ms", "per 1,024 tokens, ms (95% interval)"],
        rows,
    )


def _lengths(comparison: Comparison) -> Table:
    sides = comparison.measured
    headings = ["context asked for", _load_heading(comparison)]
    for side in sides:
        headings += [f"{side.letter} tokens", f"{side.letter} characters", f"{side.letter} requests"]
    rows = []
    for point in comparison.points:
        row = [_length(point.context_tokens), point.load.text]
        for side in sides:
            rounds = side.rounds[point]
            requests = sum(len(each.measured.completed) for each in rounds)
            row += [whole(own_lengths(side, point)), whole(side.characters.get(point)), f"{requests} in {len(rounds)}"]
        rows.append(row)
    title = "Lengths: median prompt in each model's own tokens and in characters of JSON, completed requests in rounds"
    return _plain("lengths", title, headings, rows)


def _memory_rates(comparison: Comparison) -> Table:
    rows = []
    for side in comparison.measured:
        computed, held = comparison.memory.get(side.letter), comparison.held.get(side.letter)
        if computed is not None:
            source = f"computed from {computed.source}"
            rows.append([side.letter, _bytes(computed.token_bytes), _bytes(computed.fixed_bytes), source])
        if held is not None:
            source = f"measured, {held.samples} samples of the server's gauge, median misfit {held.fit_error:.1%}"
            rows.append([side.letter, _bytes(held.token_bytes), _bytes(held.fixed_bytes), source])
    headings = ["side", "bytes a token", "bytes of state", "where from"]
    return _plain("memory", "Memory of a running sequence", headings, rows)


def _break_evens(comparison: Comparison) -> Table:
    first, *others = comparison.measured
    rows = [
        [f"{other.letter} against {first.letter}", how, break_even(figures[first.letter], figures[other.letter]).text]
        for other in others
        for how, figures in (("computed", comparison.memory), ("measured", comparison.held))
        if first.letter in figures and other.letter in figures
    ]
    return _plain("break_even", "Length at which a sequence weighs the same", ["sides", "how", "break-even"], rows)


def _bytes(size: float) -> str:
    return f"{size:,.0f}"


def _memory_lengths(comparison: Comparison) -> Table:
    lengths = sorted({point.context_tokens for point in comparison.points if point.context_tokens >= 0})
    letters = [side.letter for side in comparison.measured if side.letter in comparison.memory]
    held = [side.letter for side in comparison.measured if side.letter in comparison.held]
    rows = []
    for length in lengths if letters or held else []:
        row = [f"{length:,}", *(_mib(comparison.memory[letter].total_bytes(length)) for letter in letters)]
        figures = [comparison.held[letter] for letter in held]
        rows.append([*row, *(_mib(each.fixed_bytes + length * each.token_bytes) for each in figures)])
    return _plain(
        "memory_lengths",
        "Memory of a sequence at each length, MiB",
        ["context", *(f"{each}, computed" for each in letters), *(f"{each}, measured" for each in held)],
        rows,
    )


def _mib(size: float) -> str:
    return f"{size / MIB:,.2f}"


def _costs(comparison: Comparison) -> Table:
    rows = [
        [
            _length(each.point.context_tokens),
            each.point.load.text,
            each.letter,
            f"{each.price_per_hour:,.2f}",
            number(each.per_million_output),
            number(each.per_million_tokens),
        ]
        for each in comparison.costs
    ]
    headings = [
        "context",
        _load_heading(comparison),
        "side",
        "price an hour",
        "a million output tokens",
        "a million tokens, all",
    ]
    return _plain("cost", "Cost, in the currency of the price given", headings, rows)


def _published(comparison: Comparison) -> Table:
    rows = []
    for side in comparison.published:
        assert side.published is not None
        for each in side.published.figures:
            at = "not stated" if each.concurrency is None else str(each.concurrency)
            statistic = "" if each.statistic is None else f" ({each.statistic})"
            name = each.metric.replace("_", " ")
            rows.append([side.letter, side.published.model, side.published.hardware, f"{name}{statistic}",
                         f"{each.value:g} {each.unit}", at, each.conditions, side.published.source])  # fmt: skip
    headings = ["side", "model", "hardware", "figure", "value", "concurrency", "conditions", "source"]
    return _plain("published", "Published by others, not measured here", headings, rows)


def _judged(judged: Sequence[Judged]) -> Table:
    rows = [
        [
            each.limit.metric,
            _length(each.ratio.point.context_tokens),
            each.ratio.point.load.text,
            ratio_text(each.ratio),
            f"{each.limit.share:.1%} worse",
            str(each.outcome),
        ]
        for each in judged
    ]
    headings = ["figure", "context", "load", "run/baseline (95% interval)", "limit", "outcome"]
    return _plain("regression", "Against the baseline", headings, rows)
