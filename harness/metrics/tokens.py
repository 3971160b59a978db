"""How many tokens went in and came out, and who counted them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from harness.metrics.cell import MeasuredCell
from harness.metrics.distribution import distribution
from harness.records import Metric, Record, TokenSource


def input_tokens(record: Record) -> int | None:
    """Prompt tokens as the server reported them; None if it did not."""
    usage = record.complete.usage
    return None if usage is None else usage.prompt_tokens


def output_tokens(record: Record) -> int | None:
    """Generated tokens from the best source there was; None if there was none."""
    return record.complete.output_tokens


def token_sum(cell: MeasuredCell, count: Callable[[Record], int | None], what: str) -> tuple[int | None, str | None]:
    """The sum over completed requests and a note on those without a count; None if requests completed but none has."""
    counts = [count(each) for each in cell.completed]
    known = [each for each in counts if each is not None]
    if cell.completed and not known:
        return None, f"{what} not reported"
    missing = len(counts) - len(known)
    return sum(known), f"{what} not reported by {missing} of {len(counts)} requests" if missing else None


def token_metrics(cell: MeasuredCell) -> tuple[Metric, ...]:
    """Totals and distributions of prompt and output lengths, and how many requests each source counted."""
    metrics: list[Metric] = []
    for what, count in {"input_tokens": input_tokens, "output_tokens": output_tokens}.items():
        words = what.replace("_", " ")
        total, note = token_sum(cell, count, words)
        known = [tokens for each in cell.completed if (tokens := count(each)) is not None]
        metrics.append(Metric(name=f"total_{what}", unit="tokens", value=total, count=len(known), note=note))
        metrics += distribution(what, "tokens", known, cell.options.percentiles, note)
    return (*metrics, *_sources(cell), _unparsed(cell))


def _sources(cell: MeasuredCell) -> list[Metric]:
    counted = Counter(each.complete.output_tokens_source for each in cell.completed)
    return [
        Metric(
            name=f"output_tokens_from_{source.value}", unit="requests", value=counted[source], count=len(cell.completed)
        )
        for source in TokenSource
    ]


def _unparsed(cell: MeasuredCell) -> Metric:
    total = sum(each.complete.unparsed_events for each in cell.measured)
    return Metric(name="unparsed_events", unit="events", value=total, count=len(cell.measured))
