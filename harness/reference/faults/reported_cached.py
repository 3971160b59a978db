"""Telling clients another number of cached tokens than the engine knows, for faults to share."""

from __future__ import annotations

from collections.abc import Callable

from harness.reference.cache.prefix import Match
from harness.reference.faults.fault import override
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.sequence import Sequence

Report = Callable[[Sequence, Match | None, int | None], int | None]
"""What to tell of a sequence that has just been scheduled, given what was found for it and what has been told before
(None: this is its first scheduling); None to leave it."""


def report_cached(engine: Engine, report: Report) -> None:
    """Has ``report`` decide once for each scheduling; the engine's own numbers and counters stay right."""
    scheduler, usage = engine.scheduler, engine.usage
    count_first, cached_tokens = scheduler.count_first, usage.cached_tokens
    told: dict[str, int] = {}

    def count_and_report(sequence: Sequence, match: Match | None, now_ns: int) -> None:
        name, known = sequence.request.request_id, sequence.cached_tokens
        before = None if known is None else told.get(name, known)
        count_first(sequence, match, now_ns)
        value = report(sequence, match, before)
        if value is not None:
            told[name] = value

    def tell(sequence: Sequence) -> int:
        name, right = sequence.request.request_id, cached_tokens(sequence)
        return told.pop(name, right) if sequence.finish is not None else told.get(name, right)

    override(scheduler, "count_first", count_and_report)
    override(usage, "cached_tokens", tell)
