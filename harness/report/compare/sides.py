"""The sides of a comparison: runs that were measured here, and figures that others published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from harness.metrics.cell import MeasuredCell, MetricOptions, measured_cell
from harness.records import CellInfo, RoundPlan
from harness.report.compare.published import PublishedRun
from harness.report.derive import RunData, RunSummary, load_run
from harness.store import CellHistory, RunFolder

CONTEXT_FIELDS = ("context_tokens", "input_tokens")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Load:
    """How hard a server is asked.

    arrivals: what an open load is called ("4/s"); empty in a closed loop. level: requests in flight; of an open load
    its requests a second, where that is one number.
    """

    arrivals: str = ""
    level: float

    @property
    def text(self) -> str:
        """The load in a column of its own."""
        return self.arrivals if self.arrivals else f"{self.level:g}"

    @property
    def axis(self) -> str:
        """What the level is a level of."""
        return "arrival rate" if self.arrivals else "concurrency"

    @property
    def label(self) -> str:
        """How sentences call it."""
        return f"arrivals {self.arrivals}" if self.arrivals else f"concurrency {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Point:
    """Where sides are compared: a prompt length and a load. context_tokens: -1 if the workload aims at none."""

    context_tokens: int
    load: Load

    @property
    def label(self) -> str:
        """How tables and sentences call it."""
        length = "" if self.context_tokens < 0 else f"{self.context_tokens:,} tokens, "
        return f"{length}{self.load.label}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One finished cell at a point; `plan` is None in a run whose plan was lost."""

    measured: MeasuredCell
    history: CellHistory
    plan: RoundPlan | None

    @property
    def is_open(self) -> bool:
        """Whether arrivals, not answers, decided when requests were sent."""
        return self.history.info is not None and self.history.info.arrivals is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side; a published one has no rounds.

    letter: its short name. label: what it is, in words. left_out: cells that are unfinished. characters: median length
    of a prompt at each point, in characters of the JSON that was sent.
    """

    letter: str
    label: str
    run: RunSummary | None = None
    published: PublishedRun | None = None
    rounds: Mapping[Point, tuple[Round, ...]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    characters: Mapping[Point, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.run is None) == (self.published is None):
            raise ValueError(f"{self.letter}: a side is either a run or published figures")

    @property
    def name(self) -> str:
        """Letter and label, for tables and legends."""
        return f"{self.letter} ({self.label})"


def measured_side(letter: str, run: RunFolder, label: str | None = None) -> Side:
    """Read a run as a side; unfinished cells are left out and named. Raises StoreError if it cannot be read."""
    data = load_run(run)
    plans = {plan.cell: plan for plan in run.rounds()}
    found: dict[Point, list[Round]] = {}
    left_out: list[str] = []
    for cell in data.summary.cells:
        info = data.histories[cell.cell].info
        if info is None:
            left_out.append(cell.cell)
            continue
        point = Point(context_tokens=_context(data, cell.cell, plans), load=_load(info))
        found.setdefault(point, []).append(_round(data, cell.cell, plans))
    rounds = {point: tuple(found[point]) for point in sorted(found)}
    return Side(
        letter=letter,
        label=label if label is not None else data.summary.info.target.model,
        run=data.summary,
        rounds=rounds,
        left_out=tuple(left_out),
        characters={point: median(counts) for point, each in rounds.items() if (counts := _characters(run, each))},
    )


def _characters(run: RunFolder, rounds: Sequence[Round]) -> list[int]:
    hashes = [record.invoke.prompt_hash for each in rounds for record in each.measured.completed]
    return [len(run.read_prompt(each).decode()) for each in hashes if each is not None]


def published_side(letter: str, published: PublishedRun) -> Side:
    """Published figures as a side."""
    return Side(letter=letter, label=f"published: {published.model} on {published.hardware}", published=published)


def shared_points(sides: list[Side]) -> list[Point]:
    """The points that every measured side has, in order."""
    measured = [set(side.rounds) for side in sides if side.run is not None]
    return sorted(set.intersection(*measured)) if measured else []


def _load(info: CellInfo) -> Load:
    if info.arrivals is None:
        return Load(level=float(info.concurrency))
    rate = info.request_rate
    return Load(arrivals=info.arrivals, level=float(info.concurrency) if rate is None else rate)


def _context(data: RunData, cell: str, plans: Mapping[str, RoundPlan]) -> int:
    """The length asked for with --context, else the one the workload's own spec names."""
    info, plan = data.histories[cell].info, plans.get(cell)
    asked = info.context_tokens if info is not None else None
    if asked is not None or plan is None:
        return -1 if asked is None else asked
    named = (plan.spec.get(name) for name in CONTEXT_FIELDS)
    return next((value for value in named if isinstance(value, int)), -1)


def _round(data: RunData, cell: str, plans: Mapping[str, RoundPlan]) -> Round:
    history = data.histories[cell]
    options = MetricOptions(goodput=data.summary.info.goodput)
    measured = measured_cell(history.records, history.info, options)
    return Round(measured=measured, history=history, plan=plans.get(cell))
