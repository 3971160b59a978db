"""The comparison for a terminal, and as one JSON document."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from harness.report.compare.comparison import Comparison
from harness.report.compare.memory import break_even
from harness.report.compare.page import side_text, warnings
from harness.report.compare.ratios import Ratio
from harness.report.compare.sides import Load, Point
from harness.report.compare.tables import tables
from harness.report.compare.verdict import Judged, overall, sentences
from harness.report.terminal import WIDTH, table_text
from workloads.plan import Json

SHOWN = ("regression", "ratio_", "growth", "memory", "break_even", "cost")


def comparison_text(comparison: Comparison, judged: Sequence[Judged] = (), overlooked: Sequence[str] = ()) -> str:
    """Sides, tables, warnings, and the verdict last, where the eye is."""
    blocks = ["\n".join(_wrapped(f"{side.letter}  {side_text(side)}") for side in comparison.sides)]
    for table in tables(comparison, judged):
        if table.slug.startswith(SHOWN):
            blocks.append(f"{table.title}\n{table_text(table)}")
    told = warnings(comparison, overlooked)
    if told:
        blocks.append("\n".join(_wrapped(f"warning: {text}") for text in told))
    blocks.append("\n".join(["verdict", *(_wrapped(f"- {text}") for text in sentences(comparison))]))
    return "\n\n".join(blocks)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent="   ", break_long_words=False, break_on_hyphens=False)


def comparison_json(
    comparison: Comparison, judged: Sequence[Judged] = (), overlooked: Sequence[str] = ()
) -> dict[str, Json]:
    """Everything the page says, for programs."""
    first, *others = comparison.measured
    return {
        "sides": [
            {"letter": side.letter, "label": side.label, "published": side.published is not None,
             "run": None if side.run is None else str(side.run.path)}
            for side in comparison.sides
        ],
        "ratios": [_ratio(each) for each in comparison.ratios],
        "crossovers": [
            {"figure": each.metric, "side": each.letter, "along": each.axis, "fixed": each.fixed, "at": each.at,
             "low": _finite(each.low), "high": _finite(each.high), "ahead_below": each.ahead_before,
             "ahead_above": each.ahead_after}
            for each in comparison.crossovers
        ],
        "growth": [
            {"figure": each.metric, **_load(each.load), "side": each.letter,
             "first_ms_per_1024_tokens": each.a.slope_ms, "ms_per_1024_tokens": each.b.slope_ms, "ratio": each.ratio,
             "ratio_low": _finite(each.ratio_low), "ratio_high": _finite(each.ratio_high)}
            for each in comparison.growths
        ],
        "break_even": [
            {"side": other.letter, "how": how,
             "tokens": break_even(figures[first.letter], figures[other.letter]).tokens}
            for other in others
            for how, figures in (("computed", comparison.memory), ("measured", comparison.held))
            if first.letter in figures and other.letter in figures
        ],
        "cost": [
            {"side": each.letter, **_point(each.point),
             "per_million_output_tokens": each.per_million_output, "per_million_tokens": each.per_million_tokens}
            for each in comparison.costs
        ],
        "regression": None if not judged else {
            "outcome": str(overall(judged)),
            "figures": [{**_ratio(each.ratio), "limit": each.limit.share, "worse_by": each.worse_by,
                         "outcome": str(each.outcome)} for each in judged],
        },
        "verdict": sentences(comparison),
        "warnings": warnings(comparison, overlooked),
    }  # fmt: skip


def _ratio(each: Ratio) -> dict[str, Json]:
    return {
        "figure": each.metric,
        "side": each.letter,
        **_point(each.point),
        "first_value": each.a,
        "value": each.b,
        "ratio": each.ratio,
        "low": each.low,
        "high": each.high,
        "method": each.method,
        "pairs": each.pairs,
        "rounds": each.rounds,
    }


def _point(point: Point) -> dict[str, Json]:
    return {"context_tokens": None if point.context_tokens < 0 else point.context_tokens, **_load(point.load)}


def _load(load: Load) -> dict[str, Json]:
    """Concurrency of a closed loop, or what the arrivals of an open load are called."""
    return {
        "concurrency": None if load.arrivals else int(load.level),
        "arrivals": load.arrivals if load.arrivals else None,
    }


def _finite(value: float | None) -> float | None:
    """JSON has no infinity: None stands for an end that was not reached."""
    return None if value is None or value == float("inf") else value
