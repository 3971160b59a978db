"""How much of the prompts the server took from its cache, by its own account."""

from __future__ import annotations

from harness.metrics.cell import MeasuredCell
from harness.records import Metric, Record


def cached_and_prompt_tokens(record: Record) -> tuple[int, int] | None:
    """(cached, prompt) tokens of a request; None unless the server reported both."""
    usage = record.complete.usage
    if usage is None or usage.cached_tokens is None or usage.prompt_tokens is None:
        return None
    return usage.cached_tokens, usage.prompt_tokens


def cache_metrics(cell: MeasuredCell) -> tuple[Metric, ...]:
    """Cached share = sum of cached tokens / sum of prompt tokens, over the requests that report both."""
    pairs = [pair for each in cell.completed if (pair := cached_and_prompt_tokens(each)) is not None]
    silent = len(cell.completed) - len(pairs)
    cached = sum(pair[0] for pair in pairs)
    prompt = sum(pair[1] for pair in pairs)
    note = f"cached tokens not reported by {silent} of {len(cell.completed)} requests" if silent else None
    share = cached / prompt if prompt else None
    return (
        Metric(name="cached_share", unit="share", value=share, count=len(pairs), note=note),
        Metric(name="cached_tokens", unit="tokens", value=cached if pairs else None, count=len(pairs), note=note),
        Metric(name="cached_not_reported", unit="requests", value=silent, count=len(cell.completed)),
    )
