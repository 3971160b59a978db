"""SGLang's metric names and labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client.metrics_core import Metric

from harness.reference.scheduler.request import FinishReason
from harness.reference.server.exposition import Labels, counter, gauge, histogram
from harness.reference.server.view import EngineView

Read = Callable[[EngineView], float]


def families(views: Sequence[EngineView]) -> list[Metric]:
    """Everything on /metrics."""
    return [*_gauges(views), *_counters(views), *_histograms(views)]


def _request_labels(view: EngineView) -> Labels:
    """Labels of what is counted per request; data-parallel ranks are told apart when there are several."""
    labels = {"engine_type": "unified", "model_name": view.options.model_name}
    return {**labels, "dp_rank": str(view.index)} if view.options.replicas > 1 else labels


def _rank_labels(view: EngineView) -> Labels:
    """Labels of the scheduler's metrics."""
    return {**_request_labels(view), "moe_ep_rank": "0", "pp_rank": "0", "tp_rank": "0"}


def _gauges(views: Sequence[EngineView]) -> list[Metric]:
    table: list[tuple[str, str, Read]] = [
        ("num_running_reqs", "Running requests.", lambda v: v.running),
        ("num_queue_reqs", "Requests in the waiting queue.", lambda v: v.waiting),
        ("num_retracted_reqs", "Retracted requests.", lambda v: v.stats.preemptions),
        ("token_usage", "Share of the memory in use.", lambda v: v.memory_share),
        ("full_token_usage", "Share of the memory in use.", lambda v: v.memory_share),
        ("max_total_num_tokens", "Tokens that the memory holds.", lambda v: v.capacity_tokens),
        ("kv_used_tokens", "Tokens of running requests.", lambda v: v.running_share * v.capacity_tokens),
        ("kv_evictable_tokens", "Cached tokens.", lambda v: v.cached_blocks * v.options.block_size),
        ("kv_available_tokens", "Free tokens.", lambda v: (1 - v.memory_share) * v.capacity_tokens),
        ("page_size", "Tokens of a page.", lambda v: v.options.block_size),
        ("num_pages", "Pages that the memory holds.", lambda v: v.capacity_tokens // v.options.block_size),
        ("context_len", "Context length.", lambda v: v.options.max_model_len),
        ("mamba_used_tokens", "State slots of running requests.", lambda v: v.running),
        ("mamba_evictable_tokens", "Cached states.", lambda v: v.cached_states),
        ("hicache_host_used_tokens", "Bytes of the host tier, in tokens.", lambda v: _tokens(v, v.host_bytes)),
        ("hicache_host_mamba_used_states", "States in the host tier.", lambda v: v.host_states),
        ("cache_hit_rate", "Share of prompt tokens taken from the cache.", _hit_rate),
        ("spec_accept_length", "Tokens per verify step, bonus included.", _accept_length),
        ("spec_accept_rate", "Accepted drafts per draft.", _accept_rate),
        ("spec_num_steps", "Drafts per verify step.", lambda v: v.options.speculative_tokens),
    ]
    return [gauge(f"sglang:{name}", text, [(_rank_labels(v), read(v)) for v in views]) for name, text, read in table]


def _counters(views: Sequence[EngineView]) -> list[Metric]:
    table: list[tuple[str, str, Read]] = [
        ("prompt_tokens", "Prefill tokens processed.", lambda v: v.stats.prompt_tokens),
        ("generation_tokens", "Generation tokens processed.", lambda v: v.stats.generated_tokens),
        ("num_requests", "Requests finished.", lambda v: sum(v.stats.finished.values())),
        ("num_aborted_requests", "Requests aborted.", lambda v: v.stats.finished[FinishReason.ABORT]),
        ("num_retracted_requests", "Retractions.", lambda v: v.stats.preemptions),
        ("spec_verify_calls", "Verify steps.", lambda v: v.stats.draft_steps),
        ("evicted_tokens", "Evicted entries, in tokens.", lambda v: v.evicted_entries * v.options.block_size),
        ("backuped_tokens", "Bytes moved to the host tier, in tokens.", lambda v: _tokens(v, v.offloaded_bytes)),
        ("load_back_tokens", "Bytes copied back from there, in tokens.", lambda v: _tokens(v, v.loaded_back_bytes)),
        ("skipped_cache_stores", "Entries that memory had no room for.", lambda v: v.skipped_stores),
    ]
    counters = [
        counter(f"sglang:{name}", text, [(_request_labels(v), read(v)) for v in views]) for name, text, read in table
    ]
    return [*counters, *_by_source(views)]


def _by_source(views: Sequence[EngineView]) -> list[Metric]:
    """Counters with one sample for each source of tokens."""
    cached: list[tuple[Labels, float]] = []
    effective: list[tuple[Labels, float]] = []
    realtime: list[tuple[Labels, float]] = []
    for view in views:
        stats, labels = view.stats, _request_labels(view)
        device = stats.cached_tokens - stats.host_tokens
        for source, value in (("device", device), ("host", stats.host_tokens), ("total", stats.cached_tokens)):
            cached.append(({**labels, "cache_source": source}, value))
        computed = stats.prefilled_tokens - stats.recomputed_tokens
        for mode, value in (("input", computed), ("device_hit", device), ("host_hit", stats.host_tokens)):
            effective.append(({**labels, "mode": mode}, value))
        for mode, value in (
            ("prefill_compute", stats.prefilled_tokens),
            ("prefill_cache", stats.cached_tokens),
            ("decode", stats.generated_tokens),
        ):
            realtime.append(({**labels, "mode": mode}, value))
    return [
        counter("sglang:cached_tokens", "Cached prompt tokens by tier.", cached),
        counter("sglang:prefill_effective_tokens", "Prompt tokens by where they came from.", effective),
        counter("sglang:realtime_tokens", "Tokens by kind of work.", realtime),
    ]


def _histograms(views: Sequence[EngineView]) -> list[Metric]:
    return [
        histogram(
            "sglang:time_to_first_token_seconds",
            "Time to first token in seconds.",
            [(_request_labels(view), view.stats.ttft) for view in views],
        ),
        histogram(
            "sglang:request_time_per_output_token_seconds",
            "Time per output token of a request in seconds.",
            [(_request_labels(view), view.stats.token_gap) for view in views],
        ),
        histogram(
            "sglang:e2e_request_latency_seconds",
            "End to end latency in seconds.",
            [(_request_labels(view), view.stats.e2e) for view in views],
        ),
        histogram(
            "sglang:queue_time_seconds",
            "Time in the waiting queue in seconds.",
            [(_rank_labels(view), view.stats.queue) for view in views],
        ),
    ]


def _tokens(view: EngineView, size_bytes: int) -> float:
    return size_bytes * view.options.block_size / view.block_bytes


def _hit_rate(view: EngineView) -> float:
    return view.stats.cached_tokens / view.stats.queried_tokens if view.stats.queried_tokens else 0.0


def _accept_length(view: EngineView) -> float:
    return 1 + view.stats.accepted_tokens / view.stats.draft_steps if view.stats.draft_steps else 0.0


def _accept_rate(view: EngineView) -> float:
    return view.stats.accepted_tokens / view.stats.drafted_tokens if view.stats.drafted_tokens else 0.0
