"""Reading a cell back: lines to records, whatever state the harness left them in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson

from harness.records import (
    CellInfo,
    Complete,
    CounterSample,
    ErrorKind,
    Invoke,
    Outcome,
    Record,
    RequestError,
)
from harness.store import layout
from harness.store.codec import NotReadable, Unread, decode
from harness.store.errors import StoreError
from harness.store.folder import RunFolder
from harness.store.garbage import uncollected
from harness.store.sidecar import Segment, decode_segments

SHARED = ("cell", "step", "route", "arm", "parameters", "labels", "finish_reason", "extra")
NO_ANSWER = "the harness ended before it wrote an answer down"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellHistory:
    """Everything one cell left behind.

    info: None if the cell is unfinished. records: requests, in the order of their `invoke` lines. steps: the other
    steps. step_completes: what came of those that have an outcome, by request id. gap: ids that may have been sent
    without a line (reserved, never seen, and the history was not closed).
    torn_lines: 1 if the file ends in half a line. unreadable_lines: whole lines that could not be understood.
    unknown_lines: lines of a type this version does not know. orphan_completes: answers without their `invoke`.
    lost_times: requests whose token times are missing from the sidecar. lossy_lines: lines with mended characters.
    unread_fields: keys this version does not know, counted.
    """

    cell: str
    info: CellInfo | None
    records: tuple[Record, ...]
    steps: tuple[Invoke, ...]
    counters: tuple[CounterSample, ...]
    gap: tuple[str, ...]
    torn_lines: int
    unreadable_lines: int
    unknown_lines: int
    orphan_completes: int
    lost_times: int
    lossy_lines: int
    unread_fields: Mapping[str, int]
    step_completes: Mapping[str, Complete] = field(default_factory=dict)


def read_cell(run: RunFolder, cell: str) -> CellHistory:
    """The history of a cell, finished or not. Raises StoreError if there is none, or if its cell.json is damaged."""
    folder = run.path / cell
    lines = _Lines()
    with uncollected():
        _read_lines(folder / layout.HISTORY, lines)
        info = _read_info(folder / layout.CELL, lines.unread)
        records, lost_times = _join(lines, _read_sidecar(folder / layout.TIMES))
    seen = lines.invokes.keys() | lines.completes.keys()
    closed = info is not None or lines.closed
    steps = tuple(each for each in lines.invokes.values() if each.step != "ask")
    return CellHistory(
        cell=cell,
        info=info,
        records=records,
        steps=steps,
        counters=tuple(lines.counters),
        gap=() if closed else tuple(each for each in lines.reserved_ids() if each not in seen),
        torn_lines=lines.torn,
        unreadable_lines=lines.unreadable,
        unknown_lines=lines.unknown,
        orphan_completes=len(lines.completes.keys() - lines.invokes.keys()),
        lost_times=lost_times,
        lossy_lines=lines.lossy,
        unread_fields=lines.unread,
        step_completes={step.request_id: found for step in steps if (found := lines.completes.get(step.request_id))},
    )


def read_raw(run: RunFolder, cell: str, request_id: str) -> bytes | None:
    """The raw bytes of an answer; None if they were not kept."""
    path = layout.raw_path(run.path / cell, request_id)
    return path.read_bytes() if path.exists() else None


@dataclass(slots=True)
class _Lines:
    """The lines of a history, sorted by type."""

    invokes: dict[str, Invoke] = field(default_factory=dict)
    completes: dict[str, Complete] = field(default_factory=dict)
    wide_deltas: dict[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    counters: list[CounterSample] = field(default_factory=list)
    reserved: list[tuple[str, int, int]] = field(default_factory=list)
    closed: bool = False
    torn: int = 0
    unreadable: int = 0
    unknown: int = 0
    lossy: int = 0
    unread: Unread = field(default_factory=Counter)
    shared: dict[str, object] = field(default_factory=dict)

    def share(self, values: dict[str, object]) -> None:
        """Let a line have the very values that the one before has: most requests of a cell differ in little."""
        shared = self.shared
        for name in SHARED:
            value = values.get(name)
            if value is not None:
                if shared.get(name) == value:
                    values[name] = shared[name]
                else:
                    shared[name] = value

    def reserved_ids(self) -> Iterable[str]:
        """Every id of the reserved ranges, once."""
        return dict.fromkeys(
            f"{prefix}{number}" for prefix, first, end in self.reserved for number in range(first, end)
        )

    def read(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            try:
                self._take(orjson.loads(line))
            except (NotReadable, ValueError, TypeError, KeyError, AttributeError):
                if line.endswith(b"\n"):
                    self.unreadable += 1
                else:
                    self.torn += 1

    def _take(self, values: dict[str, object]) -> None:
        kind = values.pop("type")
        self.lossy += values.pop("lossy", False) is True
        take = _TAKERS.get(str(kind))
        if take is None:
            self.unknown += 1
        else:
            take(self, values)


def _take_invoke(lines: _Lines, values: dict[str, object]) -> None:
    lines.share(values)
    invoke = decode(Invoke, values, lines.unread)
    lines.invokes.setdefault(invoke.request_id, invoke)


def _take_complete(lines: _Lines, values: dict[str, object]) -> None:
    lines.share(values)
    wide = values.pop("wide_deltas_us", [])
    if not isinstance(wide, list):
        raise TypeError("wide_deltas_us is not an array")
    complete = decode(Complete, values, lines.unread)
    lines.completes.setdefault(complete.request_id, complete)
    if wide:
        lines.wide_deltas[complete.request_id] = [(int(index), int(delta_us)) for index, delta_us in wide]


def _take_counters(lines: _Lines, values: dict[str, object]) -> None:
    lines.counters.append(decode(CounterSample, values, lines.unread))


def _take_reserve(lines: _Lines, values: dict[str, object]) -> None:
    first, end = values["from"], values["to"]
    if not isinstance(first, int) or not isinstance(end, int):
        raise TypeError("a reserved range needs whole numbers")
    lines.reserved.append((str(values["prefix"]), first, end))


def _take_closed(lines: _Lines, values: dict[str, object]) -> None:
    lines.closed = True


_TAKERS: dict[str, Callable[[_Lines, dict[str, object]], None]] = {
    "invoke": _take_invoke,
    "complete": _take_complete,
    "counters": _take_counters,
    "reserve": _take_reserve,
    "closed": _take_closed,
}


def _read_lines(path: Path, lines: _Lines) -> None:
    try:
        with path.open("rb") as file:
            lines.read(file)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error


def _read_info(path: Path, unread: Unread) -> CellInfo | None:
    try:
        return decode(CellInfo, orjson.loads(path.read_bytes()), unread)
    except FileNotFoundError:
        return None
    except (OSError, NotReadable, orjson.JSONDecodeError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error


def _read_sidecar(path: Path) -> npt.NDArray[np.uint32]:
    if not path.exists():
        return np.empty(0, dtype="<u4")
    return np.fromfile(path, dtype="<u4")


def _join(lines: _Lines, sidecar_us: npt.NDArray[np.uint32]) -> tuple[tuple[Record, ...], int]:
    records = []
    lost = 0
    all_times = _all_times(lines, sidecar_us)
    for request_id, invoke in lines.invokes.items():
        if invoke.step != "ask":
            continue
        complete = lines.completes.get(request_id)
        times_ns = None
        if complete is None:
            complete = _unanswered(request_id)
        elif complete.times_offset is not None:
            times_ns = all_times.get(request_id)
            lost += times_ns is None
        records.append(Record(invoke=invoke, complete=complete, event_times_ns=times_ns))
    return tuple(records), lost


def _unanswered(request_id: str) -> Complete:
    error = RequestError(kind=ErrorKind.HARNESS_DIED, message=NO_ANSWER)
    return Complete(request_id=request_id, outcome=Outcome.UNKNOWN, error=error)


def _all_times(lines: _Lines, sidecar_us: npt.NDArray[np.uint32]) -> dict[str, npt.NDArray[np.int64] | None]:
    """Event times of every request that has some, by request id; None for those the file lacks."""
    timed = {
        name: Segment(each.times_offset, each.event_count, each.sent_ns, lines.wide_deltas.get(name, ()))
        for name, each in lines.completes.items()
        if each.times_offset is not None and each.sent_ns is not None
    }
    return dict(zip(timed, decode_segments(sidecar_us, list(timed.values())), strict=True))
