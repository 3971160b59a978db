"""SGLang, read up to 0.5.23; names of 0.5.9 and 0.5.12 stand behind the new ones."""

from __future__ import annotations

from collections.abc import Mapping

from harness.endpoint.dialects.base import (
    Dialect,
    Flushed,
    Identity,
    Names,
    Object,
    RankCounter,
    Ranks,
    Settings,
    first_of,
    object_at,
    text_of,
    whole_of,
)
from harness.endpoint.dialects.flushing import PATIENCE_S, absent, posted
from harness.endpoint.secret import redact_command
from harness.endpoint.side import ControlPort, JsonSource
from workloads.plan import Json

_STRATEGY = ("mamba_radix_cache_strategy", "mamba_scheduler_strategy")
_DETAILS = (
    "model_path",
    "tp_size",
    "dp_size",
    "page_size",
    "chunked_prefill_size",
    "max_total_num_tokens",
    *_STRATEGY,
    "mamba_track_interval",
    "mamba_ssm_dtype",
    "max_mamba_cache_size",
    "kv_cache_dtype",
    "enable_cache_report",
    "enable_hierarchical_cache",
    "hicache_storage_backend",
    "disable_radix_cache",
    "disaggregation_mode",
    "speculative_algorithm",
    "speculative_num_steps",
    "speculative_num_draft_tokens",
)
_COUNTERS: Mapping[str, Names] = {
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
    "requests": (("sglang:num_requests_total",),),
    "spec_drafts": (("sglang:spec_verify_calls_total",),),
}
_PREFILLED = "sglang:prefill_effective_tokens_total"
# Ranks of a tensor beside the first show theirs with --enable-metrics-for-all-schedulers alone.
_RANKS = Ranks(
    replica=("dp_rank",),
    shard=("tp_rank", "pp_rank"),
    counters={
        "prompt_tokens": RankCounter(name=_PREFILLED),
        "tier_tokens": RankCounter(name=_PREFILLED, where=("mode", ("host_hit", "storage_hit"))),
    },
)


async def _identify(source: JsonSource) -> Identity:
    info = await object_at(source, "/server_info", "/get_server_info")
    return Identity(version=text_of(info.get("version")), details=_details(info))


def _details(info: Object) -> dict[str, Json]:
    details = {name: info[name] for name in _DETAILS if info.get(name) is not None}
    command = info.get("launch_command")
    if isinstance(command, str):
        details["launch_command"] = redact_command(command)
    return details


def _read_settings(details: Mapping[str, Json]) -> Settings:
    """`disaggregation_mode` is the word "null" on a server that does both; an absent algorithm is none."""
    mode = text_of(details.get("disaggregation_mode"))
    dtype, kv_dtype = text_of(details.get("mamba_ssm_dtype")), text_of(details.get("kv_cache_dtype"))
    tiers = details.get("enable_hierarchical_cache")
    algorithm = text_of(details.get("speculative_algorithm"))
    storage = text_of(details.get("hicache_storage_backend"))
    return Settings(
        block_tokens=whole_of(details.get("page_size")),
        chunk_tokens=whole_of(details.get("chunked_prefill_size")),
        tensor_parallel=whole_of(details.get("tp_size")),
        data_parallel=whole_of(details.get("dp_size")),
        disaggregation="none" if mode == "null" else mode,
        state_dtype=dtype,
        kv_dtype=None if kv_dtype == "auto" else kv_dtype,
        state_strategy=text_of(first_of(details, _STRATEGY)),
        cache_tokens=whole_of(details.get("max_total_num_tokens")),
        state_slots=whole_of(details.get("max_mamba_cache_size")),
        speculation=algorithm if algorithm is not None else ("none" if details else None),
        speculative_tokens=whole_of(details.get("speculative_num_steps")),
        host_tier=None if tiers is None else _tier(tiers is True, storage),
    )


def _tier(on: bool, storage: str | None) -> str:
    return "none" if not on else "HiCache" + (f" + {storage}" if storage is not None else "")


async def _flush(client: ControlPort) -> Flushed:
    """Waits on the server's side; 400 means that it did not become idle. The tier behind (L3) keeps what it has."""
    found = await posted(client, f"/flush_cache?timeout={PATIENCE_S:.0f}", lambda said: True)
    return _busy_if_400(found)


async def _clear_l3(client: ControlPort) -> Flushed:
    """Needs the admin key where there is one; 400 while it is not idle."""
    found = await posted(client, "/hicache/storage-backend/clear", lambda said: True)
    if absent(found):
        found = await posted(client, "/clear_hicache_storage_backend", lambda said: True)
    return _busy_if_400(found)


def _busy_if_400(found: Flushed) -> Flushed:
    busy = found.error is not None and found.error.http_status == 400
    return Flushed(path=found.path, said=found.said, error=found.error, busy=busy)


SGLANG = Dialect(
    name="sglang",
    title="SGLang",
    owners=("sglang",),
    counter_prefixes=("sglang:",),
    sign=("/server_info", "internal_states"),
    identify=_identify,
    read_settings=_read_settings,
    counters=_COUNTERS,
    ranks=_RANKS,
    flush=_flush,
    clear_l3=_clear_l3,
    tier_fields={"return_cached_tokens_details": True},
    token_id_fields={"return_token_ids": True},
    speculation_fields={"return_spec_tokens_details": True},
    prompt_logprobs=("echo",),
    score_path="/generate",
    enable_with={
        "cached_tokens_whole": "--enable-cache-report",
        "cached_tokens_stream": "--enable-cache-report, and stream_options.include_usage in the request",
        "cached_tokens_by_tier": "body field return_cached_tokens_details",
        "flush": "POST /flush_cache (with --admin-api-key only that key may)",
        "flush_while_busy": "POST /flush_cache?timeout=SECONDS waits until it is idle",
        "salt": "body field cache_salt, or extra_key",
        "cache_bypass": "none per request; --disable-radix-cache for a server without a cache",
        "logprobs": "body fields logprobs and top_logprobs",
        "top_logprobs_20": "body field top_logprobs 20",
        "prompt_logprobs": "body fields echo and logprobs; better POST /generate with return_logprob",
        "token_id_prompts": "a list of ids as `prompt` on /v1/completions",
        "token_ids_returned": "body field return_token_ids on /v1/completions (refused in streamed chats)",
        "native_scoring": "POST /generate with return_logprob and logprob_start_len 0",
        "speculation_per_request": "body field return_spec_tokens_details (after 0.5.12)",
        "counters": "--enable-metrics",
        "tool_calls": "--tool-call-parser ling3",
        "reasoning": '--reasoning-parser ling3, and chat_template_kwargs {"enable_thinking": true}',
        "seed": "body field seed",
        "deterministic": "--enable-deterministic-inference where the backend supports it",
    },
)
