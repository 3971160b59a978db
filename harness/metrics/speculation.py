"""How many drafts were accepted, and by whose account."""

from __future__ import annotations

from collections.abc import Sequence

from harness.metrics.cell import MeasuredCell
from harness.records import Metric
from harness.stats.drafts import Drafts, drafts_of

COUNTERS, FIELDS = "server counters", "the answers' own fields"


def speculation_metrics(cell: MeasuredCell) -> tuple[Metric, ...]:
    """Acceptance length = 1 + accepted / verify steps, and the share of drafts accepted; the note names the source.

    The server's counters over the measured requests come first, then the answers' own fields; without either, or
    without a verify step, values are None.
    """
    account, source, count = _account(cell)
    drafted = None if account is None else account.drafted
    rate = account.accepted / drafted if account is not None and drafted else None
    length = None if account is None else account.acceptance_length
    return (
        Metric(name="acceptance_length", unit="tokens per step", value=length, count=count, note=source),
        Metric(name="draft_acceptance_rate", unit="share", value=rate, count=count, note=source),
    )


def _account(cell: MeasuredCell) -> tuple[Drafts | None, str | None, int]:
    """The best account, its source, and the verify steps or requests it rests on."""
    counted = cell.counted
    if counted is not None and counted.steps > 0:
        return counted, COUNTERS, counted.steps
    own = [
        drafts
        for record in cell.completed
        if (drafts := drafts_of(record.complete.extra, record.complete.output_tokens)) is not None
    ]
    if not own:
        return None, None, 0
    return _sum(own), FIELDS, len(own)


def _sum(accounts: Sequence[Drafts]) -> Drafts:
    drafted = [each.drafted for each in accounts]
    known = [each for each in drafted if each is not None]
    return Drafts(
        steps=sum(each.steps for each in accounts),
        accepted=sum(each.accepted for each in accounts),
        drafted=sum(known) if len(known) == len(drafted) else None,
        inferred=any(each.inferred for each in accounts),
    )
