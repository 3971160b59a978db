"""llama.cpp's metric names; it has no labels, and several engines are added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client.metrics_core import Metric

from harness.reference.server.exposition import counter, gauge
from harness.reference.server.view import EngineView

Read = Callable[[EngineView], float]


def families(views: Sequence[EngineView]) -> list[Metric]:
    """Everything on /metrics."""

    def total(read: Read) -> float:
        return sum(read(view) for view in views)

    def computed(view: EngineView) -> float:
        return view.stats.prompt_tokens - view.stats.cached_tokens

    counters: list[tuple[str, str, Read]] = [
        ("prompt_tokens", "Number of prompt tokens processed, excluding cached tokens", computed),
        ("prompt_tokens_cached", "Number of prompt tokens reused from the cache", lambda v: v.stats.cached_tokens),
        ("prompt_seconds", "Total time spent processing prompts", lambda v: v.stats.prefill_ns / 1e9),
        ("tokens_predicted", "Number of generation tokens processed", lambda v: v.stats.generated_tokens),
        ("tokens_predicted_seconds", "Total time spent generating tokens", lambda v: v.stats.decode_ns / 1e9),
        ("n_decode", "Total number of decode calls", lambda v: v.stats.decode_steps),
        ("spec_decode_num_draft_tokens", "Total draft tokens generated", lambda v: v.stats.drafted_tokens),
        ("spec_decode_num_accepted_tokens", "Total draft tokens accepted", lambda v: v.stats.accepted_tokens),
        ("spec_decode_num_drafts", "Total speculative verification steps", lambda v: v.stats.draft_steps),
    ]
    seconds = total(lambda v: v.stats.prefill_ns) / 1e9, total(lambda v: v.stats.decode_ns) / 1e9
    steps = total(lambda v: v.stats.decode_steps)
    gauges = [
        ("n_tokens_max", "Largest observed sequence length", max(view.stats.longest_tokens for view in views)),
        ("prompt_tokens_seconds", "Average prompt throughput in tokens/s", _ratio(total(computed), seconds[0])),
        ("predicted_tokens_seconds", "Average generation throughput in tokens/s", _ratio(total(_made), seconds[1])),
        ("requests_processing", "Number of requests processing", total(lambda v: v.running)),
        ("requests_deferred", "Number of requests deferred", total(lambda v: v.waiting)),
        ("n_busy_slots_per_decode", "Average busy slots per decode call", _ratio(total(_rows), steps)),
    ]
    return [
        *(counter(f"llamacpp:{name}", text, [({}, total(read))]) for name, text, read in counters),
        *(gauge(f"llamacpp:{name}", text, [({}, value)]) for name, text, value in gauges),
        _per_position(views),
    ]


def _made(view: EngineView) -> float:
    return view.stats.generated_tokens


def _rows(view: EngineView) -> float:
    return view.stats.decode_rows


def _ratio(amount: float, by: float) -> float:
    return amount / by if by else 0.0


def _per_position(views: Sequence[EngineView]) -> Metric:
    depth = max(len(view.stats.accepted_per_position) for view in views)
    samples = []
    for position in range(depth):
        counts = [view.stats.accepted_per_position[position : position + 1] for view in views]
        samples.append(({"position": str(position)}, float(sum(map(sum, counts)))))
    return counter("llamacpp:spec_decode_num_accepted_tokens_per_pos", "Accepted tokens per draft position", samples)
