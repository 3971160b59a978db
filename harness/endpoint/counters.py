"""The server's own counters, read from its Prometheus page."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from prometheus_client.parser import text_string_to_metric_families

from harness.clock import Clock
from harness.endpoint.errors import EndpointError
from harness.records import CounterSample, ErrorKind, RequestError

METRICS_PATH = "/metrics"
# Alternatives, newest name first; the names inside one alternative are added up.
Names = tuple[tuple[str, ...], ...]

_VLLM: Mapping[str, Names] = {
    "prompt_tokens": (("vllm:prompt_tokens_total",),),
    "generation_tokens": (("vllm:generation_tokens_total",),),
    "cached_tokens": (("vllm:prompt_tokens_cached_total",), ("vllm:prefix_cache_hits_total",)),
    "running": (("vllm:num_requests_running",),),
    "waiting": (("vllm:num_requests_waiting",),),
    # Recurrent states live in the same blocks: there is no gauge of their own.
    "kv_usage": (("vllm:kv_cache_usage_perc",), ("vllm:gpu_cache_usage_perc",)),
    "preempted": (("vllm:num_preemptions_total",),),
    "spec_drafts": (("vllm:spec_decode_num_drafts_total",),),
    "spec_accepted": (("vllm:spec_decode_num_accepted_tokens_total",),),
    "spec_draft_tokens": (("vllm:spec_decode_num_draft_tokens_total",),),
}
_SGLANG: Mapping[str, Names] = {
    "prompt_tokens": (("sglang:prompt_tokens_total",),),
    "generation_tokens": (("sglang:generation_tokens_total",),),
    "cached_tokens": (("sglang:cached_tokens_total",),),
    "running": (("sglang:num_running_reqs",),),
    "waiting": (("sglang:num_queue_reqs",),),
    "kv_usage": (("sglang:token_usage",),),
    # Shown from the first retraction on; the gauge tells those of the last report only.
    "preempted": (("sglang:num_retracted_requests_total",),),
    "preempted_now": (("sglang:num_retracted_reqs",),),
    "state_usage": (("sglang:mamba_usage",),),
    # All 0 for a model without recurrent states.
    "state_slots": (("sglang:mamba_used_tokens", "sglang:mamba_available_tokens", "sglang:mamba_evictable_tokens"),),
    "spec_drafts": (("sglang:spec_verify_calls_total",),),
}
_LLAMA_CPP: Mapping[str, Names] = {
    # prompt_tokens_total leaves cached tokens out here, unlike in the other engines.
    "prompt_tokens": (("llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"),),
    "generation_tokens": (("llamacpp:tokens_predicted_total",),),
    "cached_tokens": (("llamacpp:prompt_tokens_cached_total",),),
    "running": (("llamacpp:requests_processing",),),
    "waiting": (("llamacpp:requests_deferred",),),
    "spec_drafts": (("llamacpp:spec_decode_num_drafts_total",),),
    "spec_accepted": (("llamacpp:spec_decode_num_accepted_tokens_total",),),
    "spec_draft_tokens": (("llamacpp:spec_decode_num_draft_tokens_total",),),
}
COUNTER_NAMES: Mapping[str, Mapping[str, Names]] = MappingProxyType(
    {"vllm": _VLLM, "sglang": _SGLANG, "llama.cpp": _LLAMA_CPP}
)
_SHARES = frozenset({"kv_usage", "state_usage"})
# Histogram buckets and creation times are most of a page and are not counters of ours.
_SAMPLE_LINE = re.compile(r"^(?!#)[^\s{]*(?<!_bucket)(?<!_created)[\s{].*$", re.MULTILINE)
_ALREADY_SUMMED = 'cache_source="total"'


class TextSource(Protocol):
    """The part of a client that reads a page."""

    async def get_text(self, path: str) -> str:
        """The body of a GET; EndpointError on any trouble."""
        ...


async def scrape(client: TextSource, clock: Clock) -> CounterSample:
    """One sample of the server's counters, stamped when the page had come.

    Raises EndpointError if the server shows none, or a page that is not in the Prometheus text format.
    """
    page = await client.get_text(METRICS_PATH)
    at_ns = clock.now_ns()
    try:
        values = await asyncio.to_thread(parse_counters, page)
    except ValueError as trouble:
        message = f"{METRICS_PATH} is not in the Prometheus text format: {trouble}"
        raise EndpointError(RequestError(kind=ErrorKind.GARBAGE, message=message[:300])) from None
    if not values:
        raise EndpointError(RequestError(kind=ErrorKind.GARBAGE, message=f"{METRICS_PATH} has no samples"))
    return CounterSample(at_ns=at_ns, values=values)


def parse_counters(page: str) -> dict[str, float]:
    """`name{labels}` (labels sorted by name) to value; histogram buckets and creation times are left out.

    Raises ValueError if the page is not in the Prometheus text format.
    """
    text = "\n".join(_SAMPLE_LINE.findall(page)) + "\n"
    return {
        _key(sample.name, sample.labels): float(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def total(sample: CounterSample, engine: str, meaning: str) -> float | None:
    """What `meaning` stands at over all labels: a sum, or a mean for a share; None if the server does not show it.

    engine: a key of COUNTER_NAMES; meaning: a key of its table.
    """
    for names in COUNTER_NAMES.get(engine, {}).get(meaning, ()):
        found = [_values(sample, name) for name in names]
        if all(found):
            values = [value for group in found for value in group]
            return sum(values) / len(values) if meaning in _SHARES else sum(values)
    return None


def engine_of_counters(names: Mapping[str, float]) -> str | None:
    """The engine whose prefix the sample names bear; None if no known one does."""
    for prefix, engine in (("vllm:", "vllm"), ("sglang:", "sglang"), ("llamacpp:", "llama.cpp"), ("dynamo_", "dynamo")):
        if any(name.startswith(prefix) for name in names):
            return engine
    return None


def _values(sample: CounterSample, name: str) -> list[float]:
    return [
        value for key, value in sample.values.items() if key.partition("{")[0] == name and _ALREADY_SUMMED not in key
    ]


def _key(name: str, labels: Mapping[str, str]) -> str:
    if not labels:
        return name
    pairs = ",".join(f'{label}="{_escaped(value)}"' for label, value in sorted(labels.items()))
    return f"{name}{{{pairs}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
