"""What `compare` and `duel` share: sides put side by side, the page written, the exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click
import orjson

from harness.cli.exits import Exit
from harness.cli.memory import named_model
from harness.memory.sequence import KvDtype, Setting, StateDtype, default_state_dtype
from harness.report.compare.comparison import Comparison, compare
from harness.report.compare.memory import MemoryModelOf
from harness.report.compare.sides import Side
from harness.report.compare.verdict import Judged, Limit, Outcome, judge, overall

EXIT_OF = {Outcome.WORSE: Exit.FAIL, Outcome.UNDECIDED: Exit.UNDECIDED, Outcome.WITHIN: Exit.PASS}
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user wants of a comparison.

    presets, prices: by letter; "" holds for every side without one of its own. limits: empty without a baseline.
    """

    metrics: tuple[str, ...]
    presets: Mapping[str, str]
    prices: Mapping[str, float]
    kv_dtype: KvDtype
    state_dtype: StateDtype | None
    limits: tuple[Limit, ...]
    anyway: bool
    report_dir: Path
    as_json: bool


def by_letter(option: str, items: Sequence[str], letters: Sequence[str]) -> dict[str, str]:
    """Read "A=x" (one side) and "x" (every other side, under ""); UsageError when a side is given twice."""
    found: dict[str, str] = {}
    for item in items:
        letter, equals, text = item.partition("=")
        if not equals or letter not in letters:
            letter, text = "", item
        if letter in found:
            raise click.UsageError(f"{option}: {letter if letter else 'every side'} is given twice")
        found[letter] = text
    return found


def of_side(given: Mapping[str, Value], letter: str) -> Value | None:
    """A side's own value, else the one for every side, else None."""
    return given.get(letter, given.get(""))


def as_prices(given: Mapping[str, str]) -> dict[str, float]:
    """Prices an hour by letter; UsageError if one is not a positive number."""
    prices: dict[str, float] = {}
    for letter, text in given.items():
        try:
            prices[letter] = float(text)
        except ValueError:
            prices[letter] = 0.0
        if not prices[letter] > 0:
            raise click.UsageError(f"--price-per-hour {text!r} is not a price above 0")
    return prices


def put_side_by_side(sides: Sequence[Side], asked: Asked) -> Comparison:
    """The comparison of sides; UsageError if they have nothing in common, or are unlike and --anyway was not given."""
    measured = [side for side in sides if side.run is not None]
    wanted = dict.fromkeys([*asked.metrics, *(limit.metric for limit in asked.limits)])
    prices = {side.letter: of_side(asked.prices, side.letter) for side in measured}
    try:
        comparison = compare(
            sides,
            metrics=tuple(wanted),
            prices={letter: price for letter, price in prices.items() if price is not None},
            memory=_memory(measured, asked),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if comparison.unlike and not asked.anyway:
        told = "\n".join(f"  {each.text}" for each in comparison.unlike)
        raise click.UsageError(f"the runs are unlike; --anyway compares them all the same:\n{told}")
    return comparison


def tell(comparison: Comparison, asked: Asked) -> int:
    """Write the page, print the comparison (the page's path is the last line of stdout), and return the exit code."""
    from harness.report.compare.page import write_comparison
    from harness.report.compare.terminal import comparison_json, comparison_text

    judged = judge(comparison.ratios, asked.limits)
    overlooked = [each.text for each in comparison.unlike]
    files = write_comparison(
        comparison, asked.report_dir / folder_name(comparison), judged=judged, overlooked=overlooked
    )
    if asked.as_json:
        document = comparison_json(comparison, judged, overlooked)
        click.echo(f"page: {files.index_html}", err=True)
        click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
    else:
        click.echo(comparison_text(comparison, judged, overlooked))
        click.echo(f"\n{files.index_html}")
    return _exit_code(judged, asked)


def _exit_code(judged: Sequence[Judged], asked: Asked) -> int:
    if not asked.limits:
        return Exit.PASS
    outcome = overall(judged)
    click.echo(f"against the baseline: {outcome}", err=True)
    return EXIT_OF[outcome]


def folder_name(comparison: Comparison) -> str:
    """The folder of a comparison's page: the last part of each run's id, or the name of what was published."""
    parts = [side.published.name if side.published is not None else _token(side) for side in comparison.sides]
    return f"compare-{'-'.join(parts)}"


def _token(side: Side) -> str:
    assert side.run is not None
    return side.run.info.run_id.rpartition("-")[2]


def _memory(measured: Sequence[Side], asked: Asked) -> dict[str, MemoryModelOf]:
    """The arithmetic of each side that a preset or config is named for."""
    found: dict[str, MemoryModelOf] = {}
    for side in measured:
        name = of_side(asked.presets, side.letter)
        if name is None:
            continue
        shape = named_model(name)[0].shape
        state = asked.state_dtype if asked.state_dtype is not None else default_state_dtype(shape)
        setting = Setting(kv_dtype=asked.kv_dtype, state_dtype=state)
        found[side.letter] = MemoryModelOf(letter=side.letter, shape=shape, setting=setting, source=name)
    return found
