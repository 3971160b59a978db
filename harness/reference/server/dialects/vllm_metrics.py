"""vLLM's metric names and labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client.metrics_core import Metric

from harness.reference.server.exposition import Labels, counter, gauge, histogram
from harness.reference.server.view import EngineView


def families(views: Sequence[EngineView]) -> list[Metric]:
    """Everything on /metrics."""
    measured = [*_gauges(views), *_counters(views), *_labelled(views), *_histograms(views), *_speculation(views)]
    return [*measured, _config(views)]


def _labels(view: EngineView) -> Labels:
    return {"engine": str(view.index), "model_name": view.options.model_name}


def _each(views: Sequence[EngineView], read: Callable[[EngineView], float]) -> list[tuple[Labels, float]]:
    return [(_labels(view), read(view)) for view in views]


def _gauges(views: Sequence[EngineView]) -> list[Metric]:
    return [
        gauge("vllm:num_requests_running", "Requests in model execution batches.", _each(views, lambda v: v.running)),
        gauge("vllm:num_requests_waiting", "Requests waiting to be processed.", _each(views, lambda v: v.waiting)),
        gauge(
            "vllm:kv_cache_usage_perc",
            "KV-cache usage. 1 means 100 percent usage.",
            _each(views, lambda v: v.running_share),
        ),
    ]


def _counters(views: Sequence[EngineView]) -> list[Metric]:
    table: list[tuple[str, str, Callable[[EngineView], float]]] = [
        ("prefix_cache_queries", "Prefix cache queries, in tokens.", lambda v: v.stats.queried_tokens),
        ("prefix_cache_hits", "Prefix cache hits, in tokens.", lambda v: v.stats.cached_tokens - v.stats.host_tokens),
        ("external_prefix_cache_queries", "Queries of the offload tier, in tokens.", _external_queries),
        ("external_prefix_cache_hits", "Hits of the offload tier, in tokens.", lambda v: v.stats.host_tokens),
        ("num_preemptions", "Preemptions.", lambda v: v.stats.preemptions),
        ("prompt_tokens", "Prefill tokens processed.", lambda v: v.stats.prompt_tokens),
        ("prompt_tokens_cached", "Prompt tokens taken from the cache.", lambda v: v.stats.cached_tokens),
        ("generation_tokens", "Generation tokens processed.", lambda v: v.stats.generated_tokens),
    ]
    return [counter(f"vllm:{name}", text, _each(views, read)) for name, text, read in table]


def _external_queries(view: EngineView) -> float:
    """The offload tier is asked for what the device tier does not have."""
    if not view.options.host_bytes:
        return 0
    return view.stats.queried_tokens - (view.stats.cached_tokens - view.stats.host_tokens)


def _labelled(views: Sequence[EngineView]) -> list[Metric]:
    by_source: list[tuple[Labels, float]] = []
    cached_by_source: list[tuple[Labels, float]] = []
    finished: list[tuple[Labels, float]] = []
    for view in views:
        stats, labels = view.stats, _labels(view)
        device = stats.cached_tokens - stats.host_tokens
        computed = stats.prompt_tokens - stats.cached_tokens
        for source, value in (
            ("local_compute", computed),
            ("local_cache_hit", device),
            ("external_kv_transfer", stats.host_tokens),
        ):
            by_source.append(({**labels, "source": source}, value))
        cached_by_source += [
            ({**labels, "source": "device"}, device),
            ({**labels, "source": "host"}, stats.host_tokens),
        ]
        finished += [({**labels, "finished_reason": reason.value}, n) for reason, n in stats.finished.items()]
    return [
        counter("vllm:prompt_tokens_by_source", "Prompt tokens by source.", by_source),
        counter("vllm:prompt_tokens_cached_by_source", "Cached prompt tokens by tier.", cached_by_source),
        counter("vllm:request_success", "Successfully processed requests.", finished),
    ]


def _histograms(views: Sequence[EngineView]) -> list[Metric]:
    return [
        histogram(
            "vllm:time_to_first_token_seconds",
            "Time to first token in seconds.",
            [(_labels(view), view.stats.ttft) for view in views],
        ),
        histogram(
            "vllm:request_time_per_output_token_seconds",
            "Time per output token per request in seconds.",
            [(_labels(view), view.stats.token_gap) for view in views],
        ),
        histogram(
            "vllm:e2e_request_latency_seconds",
            "End to end request latency in seconds.",
            [(_labels(view), view.stats.e2e) for view in views],
        ),
        histogram(
            "vllm:request_queue_time_seconds",
            "Time in the waiting line in seconds.",
            [(_labels(view), view.stats.queue) for view in views],
        ),
    ]


def _speculation(views: Sequence[EngineView]) -> list[Metric]:
    if not views[0].options.speculative_tokens:
        return []
    per_position = [
        ({**_labels(view), "position": str(position)}, accepted)
        for view in views
        for position, accepted in enumerate(view.stats.accepted_per_position)
    ]
    table: list[tuple[str, str, Callable[[EngineView], float]]] = [
        ("drafts", "Spec decoding drafts.", lambda v: v.stats.draft_steps),
        ("draft_tokens", "Draft tokens.", lambda v: v.stats.drafted_tokens),
        ("accepted_tokens", "Accepted tokens.", lambda v: v.stats.accepted_tokens),
    ]
    counters = [counter(f"vllm:spec_decode_num_{name}", text, _each(views, read)) for name, text, read in table]
    name = "vllm:spec_decode_num_accepted_tokens_per_pos"
    return [*counters, counter(name, "Accepted tokens per draft position.", per_position)]


def _config(views: Sequence[EngineView]) -> Metric:
    samples = []
    for view in views:
        options = view.options
        labels = {
            "engine": str(view.index),
            "block_size": str(options.block_size),
            "mamba_block_size": str(options.block_size),
            "hash_block_size": str(options.block_size),
            "cache_hit_alignment_tokens": str(options.block_size),
            "kv_cache_size_tokens": str(view.capacity_tokens),
            "kv_cache_memory_bytes": str(options.cache_bytes),
            "kv_offloading_size": str(options.host_bytes / (1 << 30)) if options.host_bytes else "None",
            "num_gpu_blocks": str(options.cache_bytes // view.block_bytes),
            "enable_prefix_caching": str(not options.no_prefix_caching),
            "mamba_cache_mode": "align" if not options.no_prefix_caching else "none",
        }
        samples.append((labels, 1.0))
    return gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", samples)
