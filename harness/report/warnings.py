"""What a reader must know before believing a figure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.metrics import CellSummary
from harness.records import ErrorKind, RunInfo, TokenSource
from harness.report.numbers import percent
from harness.store import CellHistory

ALIKE_CACHED_SHARE = 0.02
ALIKE_INPUT_RATIO = 1.05
EMBEDDED = "These figures are of the small embedded engine on this machine; they say nothing about a real model."


def history_warnings(history: CellHistory) -> tuple[str, ...]:
    """What was lost or not understood in the records of one cell."""
    died = sum(
        each.complete.error is not None and each.complete.error.kind is ErrorKind.HARNESS_DIED
        for each in history.records
    )
    counts = {
        "requests without an answer on record (the harness ended first)": died,
        "request ids that may have been used without a record": len(history.gap),
        "lines cut short at the end of the history": history.torn_lines,
        "lines of the history that could not be read": history.unreadable_lines,
        "lines of the history of an unknown type": history.unknown_lines,
        "answers that belong to no recorded request": history.orphan_completes,
        "requests that lost their token times": history.lost_times,
        "lines that held half a character, written as U+FFFD": history.lossy_lines,
        "fields of the records unknown to this version": sum(history.unread_fields.values()),
    }
    unfinished = () if history.info is not None else ("unfinished: the figures cover what was recorded",)
    return (*unfinished, *(f"{what}: {count}" for what, count in counts.items() if count))


def run_warnings(
    info: RunInfo, cells: Sequence[CellSummary], *, aborted: Sequence[str] = (), planned: Sequence[str] = ()
) -> tuple[str, ...]:
    """Warnings about a run as a whole."""
    there = {cell.cell for cell in cells}
    missing = [name for name in planned if name not in there]
    found = [
        EMBEDDED if info.target.chosen_by == "embedded" else None,
        f"planned but never begun: {', '.join(missing)}" if missing else None,
        f"begun, given up and kept aside: {', '.join(aborted)}" if aborted else None,
        *(told for alike in _alike(cells) for told in (_cached_share_differs(alike), _input_differs(alike))),
        _lesser_token_source(cells),
    ]
    return tuple(each for each in found if each is not None)


def _alike(cells: Sequence[CellSummary]) -> list[list[CellSummary]]:
    """Finished cells that differ in their load level only."""
    groups: dict[tuple[object, ...], list[CellSummary]] = {}
    for cell in cells:
        if cell.finished:
            groups.setdefault((cell.workload, cell.cache_mode, cell.context_tokens), []).append(cell)
    return list(groups.values())


def _cached_share_differs(cells: Sequence[CellSummary]) -> str | None:
    shares = {cell.cell: share for cell in cells if (share := cell.value("cached_share")) is not None}
    if len(shares) < 2 or max(shares.values()) - min(shares.values()) <= ALIKE_CACHED_SHARE:
        return None
    each = ", ".join(f"{name} {percent(share)}" for name, share in shares.items())
    return f"The cached share differs between cells that should be alike: {each}."


def _input_differs(cells: Sequence[CellSummary]) -> str | None:
    medians = {cell.cell: median for cell in cells if (median := cell.value("median_input_tokens")) is not None}
    if len(medians) < 2 or max(medians.values()) <= ALIKE_INPUT_RATIO * min(medians.values()):
        return None
    each = ", ".join(f"{name} {median:.0f}" for name, median in medians.items())
    return f"The median input length differs between cells that should be alike: {each} tokens."


def _lesser_token_source(cells: Sequence[CellSummary]) -> str | None:
    counts = {
        source: int(sum(cell.value(f"output_tokens_from_{source.value}") or 0 for cell in cells))
        for source in TokenSource
        if source is not TokenSource.USAGE
    }
    named = [f"{count} from {source.value.replace('_', ' ')}" for source, count in counts.items() if count]
    return f"The server did not count the output tokens of some requests: {', '.join(named)}." if named else None
