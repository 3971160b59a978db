"""`ling-bench compare`: finished runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from harness.cli.comparing import Asked, as_prices, by_letter, put_side_by_side, tell
from harness.cli.disk import disk_trouble_is_a_message
from harness.memory.sequence import KvDtype, StateDtype
from harness.report.compare.published import load_published, published_names
from harness.report.compare.sides import Side, measured_side, published_side
from harness.report.compare.statistics import DEFAULT_METRICS, statistic_named
from harness.report.compare.verdict import parse_limits
from harness.report.numbers import run_letter
from harness.store import RunFolder

Decorated = Callable[..., int]


def comparison_options(command: Decorated) -> Decorated:
    """The options that say what is to be compared, shared by `compare` and `duel`."""
    options = (
        click.option("--metric", "metrics", multiple=True, help="Figures to compare; repeatable. Default: the usual."),
        click.option(
            "--kv-dtype", type=click.Choice([each.value for each in KvDtype]), default=KvDtype.BF16.value,
            show_default=True, help="Of the memory arithmetic.",
        ),
        click.option(
            "--state-dtype", type=click.Choice([each.value for each in StateDtype]), default=None,
            help="Of the memory arithmetic. Default: each config's, or fp32.",
        ),
        click.option("--anyway", is_flag=True, help="Compare what is unlike all the same, and print how it differs."),
        click.option("--report-dir", type=click.Path(path_type=Path, file_okay=False), default=Path("reports")),
        click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, metavar="RUN|PUBLISHED...")
@click.option("--baseline", default=None, metavar="RUN", help="What every other run is divided by. Default: the first.")
@click.option(
    "--max-regression", "limits", multiple=True, metavar="FIGURE=SHARE",
    help="How much worse than the baseline a figure may be, such as median_tpot_ms=5%; repeatable.",
)  # fmt: skip
@click.option("--label", "labels", multiple=True, metavar="SIDE=TEXT", help="What to call a side; default: its model.")
@click.option(
    "--preset", "presets", multiple=True, metavar="[SIDE=]CONFIG|PRESET",
    help="Model of a side (A, B, ...), for the memory arithmetic; repeatable.",
)  # fmt: skip
@click.option(
    "--price-per-hour", "prices", multiple=True, metavar="[SIDE=]PRICE", help="For the cost of tokens; repeatable."
)
@comparison_options
def compare(
    runs: tuple[str, ...],
    baseline: str | None,
    limits: tuple[str, ...],
    labels: tuple[str, ...],
    presets: tuple[str, ...],
    prices: tuple[str, ...],
    **given: object,
) -> int:
    """Put finished runs side by side: ratios with intervals, who wins where, memory, cost, one page.

    Each RUN is a run folder; what others published can stand beside it by name or file. The first side is A; the others
    are divided by it. Runs that asked for different things are refused. With --max-regression: exit 1 when a figure is
    shown to be worse by more than its limit, 3 when that cannot be told, 0 otherwise. The page's path is the last line
    on stdout.
    """
    named = runs if baseline is None else (baseline, *runs)
    letters = [run_letter(index) for index in range(len(named))]
    if limits and baseline is None:
        raise click.UsageError("--max-regression needs --baseline RUN")
    asked = asked_for(
        given,
        presets=by_letter("--preset", presets, letters),
        prices=by_letter("--price-per-hour", prices, letters),
        limits=limits,
    )
    with disk_trouble_is_a_message():
        sides = _sides(named, by_letter("--label", labels, letters))
    return tell(put_side_by_side(sides, asked), asked)


def asked_for(
    given: Mapping[str, object], *, presets: Mapping[str, str], prices: Mapping[str, str], limits: Sequence[str]
) -> Asked:
    """The options of `comparison_options`, checked; UsageError names what is wrong."""
    metrics, report_dir, state = given["metrics"], given["report_dir"], given["state_dtype"]
    assert isinstance(metrics, tuple) and isinstance(report_dir, Path)
    try:
        wanted = tuple(statistic_named(str(name)).name for name in metrics)
        parsed = tuple(parse_limits(limits))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return Asked(
        metrics=wanted if wanted else DEFAULT_METRICS,
        presets=presets,
        prices=as_prices(prices),
        kv_dtype=KvDtype(str(given["kv_dtype"])),
        state_dtype=None if state is None else StateDtype(str(state)),
        limits=parsed,
        anyway=given["anyway"] is True,
        report_dir=report_dir,
        as_json=given["as_json"] is True,
    )


def _sides(named: Sequence[str], labels: Mapping[str, str]) -> list[Side]:
    sides = [_side(run_letter(index), name, labels) for index, name in enumerate(named)]
    if sum(side.run is not None for side in sides) == 0:
        raise click.UsageError("at least one side must be a run: published figures alone are not a measurement")
    if len(sides) < 2:
        raise click.UsageError("name two runs or more, or a run and what was published")
    if sides[0].run is None:
        raise click.UsageError("published figures cannot come first: ratios are formed with a run that was measured")
    return sides


def _side(letter: str, name: str, labels: Mapping[str, str]) -> Side:
    """A run folder, or published figures by name or file."""
    if Path(name).is_dir():
        with RunFolder.open(Path(name)) as run:
            return measured_side(letter, run, labels.get(letter))
    try:
        published = load_published(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if published is None:
        raise click.UsageError(f"{name} is neither a run folder nor published; {', '.join(published_names())} are")
    return published_side(letter, published)
