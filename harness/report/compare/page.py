"""The comparison as a folder: one self-contained page, the same as Markdown, tables as CSV, pictures as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.report.build import ReportFiles, picture_of, write_csv, write_figure
from harness.report.compare.comparison import Comparison
from harness.report.compare.figures import draw
from harness.report.compare.sides import Side
from harness.report.compare.tables import tables
from harness.report.compare.verdict import Judged, sentences
from harness.report.figures import Drawing
from harness.report.memory_figure import memory_against_context
from harness.report.page import Picture, run_facts, templates
from harness.report.tables import Table
from workloads.plan import Json

FILES = {"index.html": "compare.html.j2", "index.md": "compare.md.j2"}
FEWEST_ROUNDS = 2
SHORTEST_TOKENS = 32


def write_comparison(
    comparison: Comparison, out_dir: Path, *, judged: Sequence[Judged] = (), overlooked: Sequence[str] = ()
) -> ReportFiles:
    """Write the page and everything beside it; `overlooked` are differences that the user chose to overlook."""
    out_dir.mkdir(parents=True, exist_ok=True)
    drawings = draw(comparison)
    if comparison.memory:
        drawings.append(_memory(comparison))
    figures = [path for drawing in drawings for path in write_figure(drawing, out_dir)]
    made = tables(comparison, judged)
    pictures = [picture_of(drawing, out_dir) for drawing in drawings]
    for name, template in FILES.items():
        text = _render(template, comparison, judged, overlooked, made, pictures)
        (out_dir / name).write_text(text, encoding="utf-8")
    return ReportFiles(
        index_html=out_dir / "index.html",
        index_md=out_dir / "index.md",
        csv=tuple(write_csv(table, out_dir) for table in made),
        figures=tuple(figures),
    )


def _memory(comparison: Comparison) -> Drawing:
    """Memory against length under the sides' own names, from lengths where their lines may still cross."""
    names = {side.letter: side.name for side in comparison.sides}
    models = [
        (replace(each.shape, name=names.get(letter, each.shape.name)), each.setting)
        for letter, each in comparison.memory.items()
    ]
    longest = max([*(point.context_tokens for point in comparison.points), 1])
    return memory_against_context(models, longest, SHORTEST_TOKENS)


def _render(
    template: str,
    comparison: Comparison,
    judged: Sequence[Judged],
    overlooked: Sequence[str],
    made: Sequence[Table],
    pictures: Sequence[Picture],
) -> str:
    environment = templates(autoescape=template.endswith(".html.j2"))
    return environment.get_template(template).render(
        sides=[{"letter": side.letter, "name": side.name, "text": side_text(side)} for side in comparison.sides],
        verdict=[*(each.text for each in judged), *sentences(comparison)],
        warnings=warnings(comparison, overlooked),
        guide=_guide(comparison),
        tables=made,
        pictures=pictures,
        runs=[run_facts(side.run, side.name) for side in comparison.measured if side.run is not None],
    )


def side_text(side: Side) -> str:
    """One line that says what a side is and where its figures come from."""
    if side.published is not None:
        published = side.published
        return (
            f"published figures of {published.model} on {published.hardware}, not measured here"
            f" ({published.conditions}; source: {published.source})"
        )
    assert side.run is not None
    target = side.run.info.target
    engine = " ".join(part for part in (target.engine, target.engine_version) if part)
    named = f"{side.label}: " if side.label != target.model else ""
    where = f"{target.base_url}, {engine}" if engine else target.base_url
    return f"{named}model {target.model} at {where}, measured {side.run.info.started_utc[:16]} UTC"


def warnings(comparison: Comparison, overlooked: Sequence[str]) -> list[str]:
    """What a reader must know before believing a ratio."""
    told = [f"Unlike, compared anyway: {text}" for text in overlooked]
    if not comparison.interleaved:
        told.append(
            "The runs did not take turns (ling-bench duel does that): whatever changed on the machine or the network"
            " between them is part of the ratios and not of the intervals."
        )
    fewest = min(len(side.rounds[point]) for side in comparison.measured for point in comparison.points)
    if fewest < FEWEST_ROUNDS:
        told.append("One round at some points: their intervals cover noise between requests, not drift over minutes.")
    told += [f"Not compared, {text}" for text in comparison.apart]
    told += [
        f"{side.letter}: unfinished cells left out: {', '.join(side.left_out)}"
        for side in comparison.measured
        if side.left_out
    ]
    missing = [each for each in comparison.ratios if each.ratio is not None and each.low is None]
    if missing:
        told.append(f"{len(missing)} ratios have no interval: fewer than 8 sessions or blocks to draw from.")
    return told


def _asked(comparison: Comparison) -> list[str]:
    """What was asked, in a sentence, where all runs say it alike."""
    told = {_workload_words(side.run.info.options) for side in comparison.measured if side.run is not None}
    return [f"Asked: {words}." for words in told if words is not None and len(told) == 1]


def _workload_words(options: Mapping[str, Json]) -> str | None:
    if options.get("dataset_name") is None:
        return None
    cache = {"cold": "a cache cold at the start of each cell", "warm": "a warm cache", "keep": "the cache as it was"}
    requests, output, seed = (options.get(name) for name in ("num_prompts", "output_tokens", "seed"))
    parts = [
        f"the {options.get('dataset_name')} workload",
        f"{requests} measured requests a cell" if requests is not None else "",
        f"answers of at most {output} tokens" if output is not None else "",
        cache.get(str(options.get("cache")), ""),
        f"seed {seed}",
    ]
    return ", ".join(part for part in parts if part)


def _guide(comparison: Comparison) -> list[str]:
    first = comparison.measured[0]
    methods = sorted({each.method for each in comparison.ratios if each.method is not None})
    lines = [
        *_asked(comparison),
        "TTFT is the time to the first token, TPOT the mean time of each later token of a request, ITL the time between"
        " tokens, all gaps of all requests together.",
        f"Every ratio divides a side by {first.letter}. A side is called ahead where the 95% interval of the ratio"
        " leaves 1 out; elsewhere the difference cannot be told from noise. About one in twenty such claims about equal"
        " sides would be wrong.",
        f"Intervals come from resampling whole sessions 2,000 times ({'; '.join(methods)}). Where a point was measured"
        " in several rounds, the spread between rounds widens them.",
    ]
    if comparison.published:
        lines.append(
            "Published figures are drawn only at the load they were published for. Their prompts, machine and software"
            " are not ours, so no ratio is formed with them."
        )
    return lines
