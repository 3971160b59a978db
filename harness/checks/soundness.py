"""The harness judges itself: whether the figures of a run may be believed, by what it measured of its own work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.checks.verdict import Evidence, Status, Verdict
from harness.records import CellInfo, HarnessHealth, Record
from workloads.plan import Json, Phase

NAME = "soundness"
NS_PER_MS = 1_000_000
# Of 400 cells on a machine of two cores with a load of 8, 99 in 100 stayed below 5, 71 and 70 ms: a loop late beyond
# these limits was held up by more than its neighbours.
LAG_P50_LIMIT_MS = 20.0
LAG_P99_LIMIT_MS = 200.0
LATE_P99_LIMIT_MS = 250.0
# An event loop has one core; what it takes of it beyond this it lacks.
CPU_LIMIT = 0.95
# What comes during a collection is stamped late, so that this is the share of times it may spoil.
GC_LIMIT = 0.05
# The spread of starts and the tail take most of a short cell: the level has to be there for a tenth of it.
LEVEL_SHARE = 0.8
LEVEL_TIME = 0.1
REQUESTS_PER_SLOT = 2
# Cells by what is wrong with them, in the verdict's details.
LATE_CELLS, LOSSY_CELLS = "late_cells", "lossy_cells"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """How one cell was carried out.

    info: None if it is unfinished. lost: how much of the history is missing, by what it is. keeps_level: a closed loop
    whose plan always had another request, so that its concurrency had to be reached.
    """

    cell: str
    info: CellInfo | None
    records: tuple[Record, ...] = ()
    lost: Mapping[str, int] = field(default_factory=dict)
    keeps_level: bool = False

    @property
    def measured(self) -> tuple[Record, ...]:
        """Its requests without the warm-up."""
        return tuple(each for each in self.records if each.invoke.phase is Phase.MEASURE)


def judge(conducts: Sequence[Conduct]) -> Verdict:
    """FAIL means that figures of the named cells are not to be believed; unfinished cells are not examined."""
    finished = [each for each in conducts if each.info is not None and each.records]
    findings = [(each, reasons) for each in finished if (reasons := (*_late(each), *_lost(each)))]
    status, reason = Status.PASS, f"the harness kept up in {len(finished)} cells"
    if not finished:
        status, reason = Status.INCONCLUSIVE, "no cell with requests came to its end"
    elif findings:
        first, reasons = findings[0]
        status, reason = Status.FAIL, f"the harness did not keep up: {reasons[0]} in {first.cell}"
    return Verdict(
        check=NAME,
        status=status,
        reason=reason,
        eligible=len(conducts),
        examined=len(finished),
        violations=len(findings),
        evidence=tuple(_evidence(each, reasons) for each, reasons in findings),
        details={
            **_worst([each.info.health for each in finished if each.info is not None]),
            LATE_CELLS: [each.cell for each in finished if any(_late(each))],
            LOSSY_CELLS: [each.cell for each in finished if any(_lost(each))],
        },
    )


def _late(conduct: Conduct) -> Iterator[str]:
    """Why times of a cell are not to be believed."""
    assert conduct.info is not None
    health = conduct.info.health
    lag_p50_ms, lag_p99_ms, cpu = health.loop_lag_p50_ms, health.loop_lag_p99_ms, health.cpu_share
    if lag_p50_ms is not None and lag_p50_ms > LAG_P50_LIMIT_MS:
        yield f"half of its timers were more than {lag_p50_ms:.0f} ms late (limit {LAG_P50_LIMIT_MS:g})"
    if lag_p99_ms is not None and lag_p99_ms > LAG_P99_LIMIT_MS:
        yield f"loop lag p99 {lag_p99_ms:.0f} ms (limit {LAG_P99_LIMIT_MS:g})"
    yield from _paused(health)
    if cpu is not None and cpu > CPU_LIMIT:
        yield f"it took {cpu:.0%} of a core (limit {CPU_LIMIT:.0%})"
    late_ms = late_p99_ms(conduct.measured)
    if late_ms is not None and late_ms > LATE_P99_LIMIT_MS:
        yield f"requests went out late: p99 {late_ms:.0f} ms (limit {LATE_P99_LIMIT_MS:g})"
    yield from _level(conduct, conduct.info.concurrency)


def _paused(health: HarnessHealth) -> Iterator[str]:
    """Pauses of the garbage collector spoil figures where they are long and many; the lag shows single ones."""
    share, longest_ms = health.gc_share, health.gc_max_ms
    if share is None or longest_ms is None:
        return
    if share > GC_LIMIT and longest_ms > LAG_P50_LIMIT_MS:
        yield f"garbage was collected for {share:.0%} of the time, up to {longest_ms:.0f} ms (limit {GC_LIMIT:.0%})"


def _lost(conduct: Conduct) -> Iterator[str]:
    """Why no figure of a cell is."""
    yield from (f"{what}: {count}" for what, count in conduct.lost.items() if count)


def _level(conduct: Conduct, concurrency: int) -> Iterator[str]:
    """Whether the load that the cell is named after was ever there."""
    measured = conduct.measured
    if not conduct.keeps_level or len(measured) < REQUESTS_PER_SLOT * concurrency:
        return
    level = sustained_level(measured)
    if level is not None and level < LEVEL_SHARE * concurrency:
        yield f"{concurrency} requests were to be in flight, and never more than {level} for a tenth of the time"


def late_p99_ms(measured: Sequence[Record]) -> float | None:
    """How late requests were written after they were due and had room; None if none was written."""
    late = [
        each.complete.sent_ns - max(each.invoke.planned_ns, _room_ns(each))
        for each in measured
        if each.complete.sent_ns is not None
    ]
    return float(np.percentile(late, 99)) / NS_PER_MS if late else None


def _room_ns(record: Record) -> int:
    released_ns = record.invoke.released_ns
    return record.invoke.planned_ns if released_ns is None else released_ns


def sustained_level(measured: Sequence[Record]) -> int | None:
    """The most requests that were in flight for at least LEVEL_TIME of the time; None if nothing was timed."""
    spans = [
        (each.complete.sent_ns, each.complete.end_ns)
        for each in measured
        if each.complete.sent_ns is not None and each.complete.end_ns is not None
    ]
    if not spans:
        return None
    times = np.array([at for span in spans for at in span], dtype=np.int64)
    changes = np.tile([1, -1], len(spans))
    order = np.lexsort((changes, times))
    lasting = np.diff(times[order])
    level = np.cumsum(changes[order])[:-1]
    if not lasting.sum():
        return None
    longest_first = np.argsort(-level, kind="stable")
    reached = np.cumsum(lasting[longest_first]) >= LEVEL_TIME * lasting.sum()
    return int(level[longest_first][int(np.argmax(reached))])


def _evidence(conduct: Conduct, reasons: Sequence[str]) -> Evidence:
    assert conduct.info is not None
    return Evidence(request_ids=(), text=f"{conduct.cell}: {'; '.join(reasons)}", table=_figures(conduct.info.health))


def _figures(health: HarnessHealth) -> dict[str, Json]:
    return {
        "loop_lag_p50_ms": health.loop_lag_p50_ms,
        "loop_lag_p99_ms": health.loop_lag_p99_ms,
        "loop_lag_max_ms": health.loop_lag_max_ms,
        "cpu_share": health.cpu_share,
        "gc_share": health.gc_share,
        "gc_max_ms": health.gc_max_ms,
        "backlog_p99_bytes": health.backlog_p99_bytes,
        "achieved_concurrency": health.achieved_concurrency,
    }


def _worst(healths: Sequence[HarnessHealth]) -> dict[str, Json]:
    """The largest of each figure over all cells; what no cell measured is left out."""
    names = ("loop_lag_p50_ms", "loop_lag_p99_ms", "cpu_share", "gc_max_ms")
    found = {name: [value for each in healths if (value := getattr(each, name)) is not None] for name in names}
    return {f"worst_{name}": max(values) for name, values in found.items() if values}
