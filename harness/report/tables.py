"""The tables of a run: one row per cell, shared by the terminal, the page and the CSV files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from harness.metrics import CellSummary
from harness.metrics.classes import ClassSummary
from harness.metrics.distribution import percentile_word
from harness.report.correct import NAME as CORRECT
from harness.report.derive import RunSummary
from harness.report.numbers import NOT_REPORTED, number, percent, run_letter, whole

if TYPE_CHECKING:
    import pandas as pd

Value: TypeAlias = str | float | None
UNFINISHED_MARK = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One metric in a table: its heading, its name in metrics.json and how it is shown.

    noted: the metric's note stands there instead of its value, under `name` in a frame.
    """

    heading: str
    metric: str
    show: Callable[[float | None], str] = number
    noted: bool = False

    @property
    def name(self) -> str:
        """What a frame calls it."""
        return f"{self.metric}_note" if self.noted else self.metric

    def value(self, figures: CellSummary | ClassSummary) -> Value:
        """The unrounded value, or the note."""
        if not self.noted:
            return figures.value(self.metric)
        metric = figures.metric(self.metric)
        return None if metric is None else metric.note

    def text(self, figures: CellSummary | ClassSummary) -> str:
        """What a reader sees; a dash for what there is not."""
        if not self.noted:
            return self.show(figures.value(self.metric))
        note = self.value(figures)
        return NOT_REPORTED if note is None else str(note)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table for people (`headings`, `rows`) and for programs (`frame`).

    `groups` are the spans of the columns under a common heading, (heading, columns); empty if there are none.
    """

    slug: str
    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[str, int], ...]
    metrics: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]

    @property
    def full_headings(self) -> tuple[str, ...]:
        """The headings with their group's in front, for places that have one line of them."""
        names = [name for name, size in self.groups for _ in range(size)]
        if not names:
            return self.headings
        return tuple(f"{name} {heading}".strip() for name, heading in zip(names, self.headings, strict=True))

    def frame(self) -> pd.DataFrame:
        """The unrounded values, one row per cell, columns named after the metrics."""
        import pandas as pd

        return pd.DataFrame(list(self.values), columns=list(self.metrics))


def run_tables(runs: Sequence[RunSummary]) -> tuple[Table, ...]:
    """Throughput, harness health, latency and lengths of one or several runs."""
    percentiles = runs[0].percentiles if runs else ()
    goodput = any(run.info.goodput for run in runs)
    judged = any(cell.value(CORRECT) is not None for run in runs for cell in run.cells)
    drafting = any(cell.value("acceptance_length") is not None for run in runs for cell in run.cells)
    return (
        _table("throughput", "Throughput", runs, _throughput_columns(goodput, judged)),
        *((_table("speculation", "Speculation", runs, SPECULATION_COLUMNS),) if drafting else ()),
        _table("health", "The harness itself", runs, HEALTH_COLUMNS),
        _with_bound(_table("server", "The server, and what bound it", runs, SERVER_COLUMNS), runs),
        _table("ttft_tpot", "Latency: TTFT and TPOT", runs, *_spreads(percentiles, ("ttft", "tpot"))),
        _table("itl_e2el", "Latency: ITL and E2E", runs, *_spreads(percentiles, ("itl", "e2el"))),
        _table("lengths", "Lengths", runs, *_spreads(percentiles, ("input_tokens", "output_tokens"))),
        *_class_tables(runs, percentiles, goodput),
    )


def load_word(runs: Sequence[RunSummary]) -> str:
    """What the load of the cells is: "concurrency", "arrivals" under open load, "load" where there are both."""
    opened = {cell.arrivals is not None for run in runs for cell in run.cells}
    return {frozenset({True}): "arrivals", frozenset({True, False}): "load"}.get(frozenset(opened), "concurrency")


def cell_label(cell: CellSummary) -> str:
    """The load of a cell, or its name if no level was recorded; unfinished cells carry a mark."""
    level = cell.cell if cell.concurrency is None else str(cell.concurrency)
    level = level if cell.arrivals is None else cell.arrivals
    return level if cell.finished else level + UNFINISHED_MARK


def cell_place(cell: CellSummary) -> str:
    """The load of a cell, and its context length where it has one, for lines outside a table."""
    context = "" if cell.context_tokens is None else f", context {cell.context_tokens:,}"
    return f"{cell_label(cell)}{context}"


HEALTH_COLUMNS = (
    Column(heading="lag p50 ms", metric="loop_lag_p50_ms"),
    Column(heading="lag p99 ms", metric="loop_lag_p99_ms"),
    Column(heading="lag max ms", metric="loop_lag_max_ms"),
    Column(heading="late p99 ms", metric="send_delay_p99_ms"),
    Column(heading="CPU", metric="cpu_share", show=percent),
    Column(heading="GC max ms", metric="gc_max_ms"),
    Column(heading="unread p99 B", metric="backlog_p99_bytes", show=whole),
    Column(heading="in flight", metric="achieved_concurrency"),
    Column(heading="conns", metric="connections_open", show=whole),
    Column(heading="retries", metric="retries", show=whole),
    Column(heading="unparsed", metric="unparsed_events", show=whole),
)
SPECULATION_COLUMNS = (
    Column(heading="acceptance length", metric="acceptance_length"),
    Column(heading="drafts accepted", metric="draft_acceptance_rate", show=percent),
    Column(heading="counted by", metric="acceptance_length", noted=True),
)
SERVER_COLUMNS = (
    Column(heading="running", metric="server_running", show=whole),
    Column(heading="waiting", metric="server_waiting", show=whole),
    Column(heading="preempted", metric="server_preempted", show=whole),
    Column(heading="KV used", metric="server_kv_usage", show=percent),
    Column(heading="state slots used", metric="server_state_usage", show=percent),
)
CLASS_COLUMNS = (
    Column(heading="completed", metric="completed", show=whole),
    Column(heading="failed", metric="failed", show=whole),
    Column(heading="req/s", metric="request_throughput"),
    Column(heading="out tok/s", metric="output_throughput"),
    Column(heading="good", metric="good_share", show=percent),
    Column(heading="cached", metric="cached_share", show=percent),
)
CELL_FIELDS = ("run", "cell", "concurrency", "context_tokens", "arrivals", "finished")
SPREAD_HEADINGS = {
    "ttft": ("TTFT ms", "ttft_ms"),
    "tpot": ("TPOT ms", "tpot_ms"),
    "itl": ("ITL ms", "itl_ms"),
    "e2el": ("E2E ms", "e2el_ms"),
    "input_tokens": ("input tokens", "input_tokens"),
    "output_tokens": ("output tokens", "output_tokens"),
}


def _with_bound(table: Table, runs: Sequence[RunSummary]) -> Table:
    """The table with a last column of words: what bound each cell."""
    bounds = [cell.bound for run in runs for cell in run.cells]
    return replace(
        table,
        headings=(*table.headings, "bound by"),
        rows=tuple((*row, bound or NOT_REPORTED) for row, bound in zip(table.rows, bounds, strict=True)),
        metrics=(*table.metrics, "bound"),
        values=tuple((*row, bound) for row, bound in zip(table.values, bounds, strict=True)),
    )


def _throughput_columns(goodput: bool, judged: bool) -> tuple[Column, ...]:
    columns = [
        Column(heading="completed", metric="completed", show=whole),
        Column(heading="failed", metric="failed", show=whole),
        Column(heading="seconds", metric="duration"),
        Column(heading="req/s", metric="request_throughput"),
        Column(heading="out tok/s", metric="output_throughput"),
        Column(heading="steady tok/s", metric="steady_output_throughput"),
        Column(heading="all tok/s", metric="total_token_throughput"),
        Column(heading="cached", metric="cached_share", show=percent),
        Column(heading="lag p99 ms", metric="loop_lag_p99_ms"),
    ]
    if goodput:
        columns.insert(7, Column(heading="good req/s", metric="request_goodput"))
        columns.insert(8, Column(heading="good", metric="good_share", show=percent))
    if judged:
        columns.insert(9, Column(heading="right req/s", metric=CORRECT))
    return tuple(columns)


def _spreads(
    percentiles: Sequence[float], names: Sequence[str]
) -> tuple[tuple[Column, ...], tuple[tuple[str, int], ...]]:
    words = ["mean", *(percentile_word(each) for each in percentiles)]
    columns = tuple(
        Column(heading=word, metric=f"{word}_{SPREAD_HEADINGS[name][1]}") for name in names for word in words
    )
    return columns, tuple((SPREAD_HEADINGS[name][0], len(words)) for name in names)


def _class_tables(runs: Sequence[RunSummary], percentiles: Sequence[float], goodput: bool) -> tuple[Table, ...]:
    """One table with a row for each class of each cell; none where requests carry no class."""
    if not any(cell.classes for run in runs for cell in run.cells):
        return ()
    columns = CLASS_COLUMNS if goodput else tuple(each for each in CLASS_COLUMNS if each.metric != "good_share")
    spreads, groups = _spreads(percentiles, ("ttft", "tpot", "e2el"))
    groups = (("throughput", len(columns)), *groups)
    return (_table("classes", "By class", runs, (*columns, *spreads), groups, by_class=True),)


def _table(
    slug: str,
    title: str,
    runs: Sequence[RunSummary],
    columns: Sequence[Column],
    groups: tuple[tuple[str, int], ...] = (),
    *,
    by_class: bool = False,
) -> Table:
    """A row for each cell, or for each of its classes."""
    several = len(runs) > 1
    contexts = any(cell.context_tokens is not None for run in runs for cell in run.cells)
    lead = (*(["run"] if several else []), *(["context"] if contexts else []), load_word(runs))
    lead = (*lead, "class") if by_class else lead
    lines = [
        line for index, run in enumerate(runs) for cell in run.cells for line in _lines(index, run, cell, by_class)
    ]
    names = [column.name for column in columns]
    return Table(
        slug=slug,
        title=title,
        headings=(*lead, *(column.heading for column in columns)),
        rows=tuple(
            (
                *([line.letter] if several else []),
                *([whole(line.cell.context_tokens)] if contexts else []),
                cell_label(line.cell),
                *line.names,
                *(column.text(line.figures) for column in columns),
            )
            for line in lines
        ),
        groups=(("", len(lead)), *groups) if groups else (),
        metrics=(*CELL_FIELDS, *(["class"] if by_class else []), *names),
        values=tuple(
            (
                line.run.info.run_id,
                line.cell.cell,
                line.cell.concurrency,
                line.cell.context_tokens,
                line.cell.arrivals,
                str(line.cell.finished).lower(),
                *line.names,
                *(column.value(line.figures) for column in columns),
            )
            for line in lines
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A row of a table before it is written; names: of the class whose figures they are, empty for a whole cell."""

    letter: str
    run: RunSummary
    cell: CellSummary
    figures: CellSummary | ClassSummary
    names: tuple[str, ...] = ()


def _lines(index: int, run: RunSummary, cell: CellSummary, by_class: bool) -> list[_Line]:
    letter = run_letter(index)
    if not by_class:
        return [_Line(letter=letter, run=run, cell=cell, figures=cell)]
    return [_Line(letter=letter, run=run, cell=cell, figures=each, names=(each.name,)) for each in cell.classes]
