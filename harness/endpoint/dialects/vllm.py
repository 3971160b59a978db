"""vLLM, read up to 0.33; names of older releases stand behind the new ones."""

from __future__ import annotations

import re
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
    identify_by_version,
    object_at,
    text_of,
    whole_of,
)
from harness.endpoint.dialects.flushing import object_in, posted
from harness.endpoint.dialects.prometheus import parse_counters
from harness.endpoint.errors import EndpointError
from harness.endpoint.side import ControlPort, JsonSource
from workloads.plan import Json

_LABEL = re.compile(r'(\w+)="([^"]*)"')
_CONFIG_FIELDS = ("tensor_parallel_size", "data_parallel_size", "pipeline_parallel_size", "kv_cache_dtype")
_COUNTERS: Mapping[str, Names] = {
    "prompt_tokens": (("vllm:prompt_tokens_total",),),
    "generation_tokens": (("vllm:generation_tokens_total",),),
    "cached_tokens": (
        ("vllm:prompt_tokens_cached_total",),
        ("vllm:prefix_cache_hits_total",),
        ("vllm:gpu_prefix_cache_hits_total",),
    ),
    "tier_tokens": (("vllm:external_prefix_cache_hits_total",),),
    "running": (("vllm:num_requests_running",),),
    "waiting": (("vllm:num_requests_waiting",),),
    # Recurrent states live in the same blocks: there is no gauge of their own.
    "kv_usage": (("vllm:kv_cache_usage_perc",), ("vllm:gpu_cache_usage_perc",)),
    "preempted": (("vllm:num_preemptions_total",),),
    "requests": (("vllm:request_success_total",),),
    "spec_drafts": (("vllm:spec_decode_num_drafts_total",),),
    "spec_accepted": (("vllm:spec_decode_num_accepted_tokens_total",),),
    "spec_draft_tokens": (("vllm:spec_decode_num_draft_tokens_total",),),
}
# One engine is one rank of data parallelism; ranks of a tensor have no counters of their own.
_RANKS = Ranks(
    replica=("engine",),
    counters={
        "prompt_tokens": RankCounter(name="vllm:prompt_tokens_total"),
        "tier_tokens": RankCounter(name="vllm:external_prefix_cache_hits_total"),
    },
)


async def _identify(source: JsonSource) -> Identity:
    """Version; labels of vllm:cache_config_info, which no other route shows; the config, where dev mode shows it."""
    version = (await identify_by_version(source)).version
    details: dict[str, Json] = {}
    try:
        names = parse_counters(await source.get_text("/metrics"))
    except (EndpointError, ValueError):
        names = {}
    found = next((name for name in names if name.startswith("vllm:cache_config_info{")), None)
    if found is not None:
        details["cache_config_info"] = found
    if names:
        details["drafts"] = any(name.startswith("vllm:spec_decode_num_drafts") for name in names)
    details.update(_config(await object_at(source, "/server_info")))
    return Identity(version=version, details=details)


def _config(info: Object) -> dict[str, Json]:
    """The few fields of the config that matter here; it comes as one line of Python's repr."""
    text = info.get("vllm_config")
    if not isinstance(text, str):
        return {}
    found: dict[str, Json] = {}
    for name in _CONFIG_FIELDS:
        match = re.search(rf"\b{name}=([\w.]+)", text)
        if match is not None:
            found[name] = match.group(1)
    speculation = re.search(r"\bspeculative_config=(None|SpeculativeConfig\([^)]*\))", text)
    if speculation is not None:
        found["speculative_config"] = speculation.group(1)
    return found


def _read_settings(details: Mapping[str, Json]) -> Settings:
    info = details.get("cache_config_info")
    labels: dict[str, str] = dict(_LABEL.findall(info)) if isinstance(info, str) else {}
    known = {name: value for name, value in labels.items() if value != "None"}
    speculation = text_of(details.get("speculative_config"))
    drafts = re.search(r"num_spec(?:ulative)?_tokens=(\d+)", speculation) if speculation is not None else None
    strategy = known.get("mamba_cache_mode")
    return Settings(
        block_tokens=_block(known),
        tensor_parallel=whole_of(details.get("tensor_parallel_size")),
        data_parallel=whole_of(details.get("data_parallel_size")),
        state_dtype=None if strategy == "none" else _named(known.get("mamba_ssm_cache_dtype")),
        kv_dtype=_named(known.get("cache_dtype")),
        state_strategy=strategy,
        cache_tokens=_capacity(known),
        speculation=_speculation(speculation, details.get("drafts")),
        speculative_tokens=whole_of(drafts.group(1)) if drafts is not None else None,
        host_tier=known.get("kv_offloading_size"),
    )


def _speculation(config: str | None, drafts: Json) -> str | None:
    """The config where dev mode shows it; else whether there are counters of drafts, as only a drafting server has."""
    if config is not None:
        return "none" if config == "None" else config
    return None if not isinstance(drafts, bool) else ("on" if drafts else "none")


def _block(labels: Mapping[str, str]) -> int | None:
    """What a hit is aligned to, else the block."""
    stated = whole_of(labels.get("cache_hit_alignment_tokens"))
    return stated if stated is not None else whole_of(labels.get("block_size"))


def _capacity(labels: Mapping[str, str]) -> int | None:
    size, blocks = whole_of(labels.get("kv_cache_size_tokens")), whole_of(labels.get("num_gpu_blocks"))
    block = whole_of(labels.get("block_size"))
    return blocks * block if size is None and blocks is not None and block is not None else size


def _named(value: str | None) -> str | None:
    """A dtype that is one: "auto" says only that the model's own is taken."""
    return None if value == "auto" else value


async def _flush(client: ControlPort) -> Flushed:
    """`{"success": false}` comes with status 200 while any block is held; older servers answer with nothing at all."""
    return await posted(client, "/reset_prefix_cache", _says_success)


def _says_success(said: str) -> bool:
    content = object_in(said)
    return content.get("success") is True if "success" in content else not said.strip()


async def _clear_l3(client: ControlPort) -> Flushed:
    """The connector behind (LMCache, Mooncake, offloading) goes with the same route."""
    return await posted(client, "/reset_prefix_cache?reset_external=true", _says_success)


VLLM = Dialect(
    name="vllm",
    title="vLLM",
    owners=("vllm",),
    counter_prefixes=("vllm:",),
    identify=_identify,
    read_settings=_read_settings,
    counters=_COUNTERS,
    ranks=_RANKS,
    flush=_flush,
    clear_l3=_clear_l3,
    token_id_fields={"return_token_ids": True},
    prompt_logprobs=("prompt_logprobs", "echo"),
    enable_with={
        "cached_tokens_whole": "--enable-prompt-tokens-details",
        "cached_tokens_stream": "--enable-prompt-tokens-details, and stream_options.include_usage in the request",
        "cached_tokens_by_tier": "not per request; counters vllm:prompt_tokens_cached_by_source_total",
        "flush": "VLLM_SERVER_DEV_MODE=1 in the server's environment, for POST /reset_prefix_cache",
        "flush_while_busy": "POST /reset_prefix_cache?reset_running_requests=true",
        "salt": "body field cache_salt (at most 128 characters, no @, slash, backslash or NUL)",
        "cache_bypass": "body field prompt_logprobs; --no-enable-prefix-caching for a server without a cache",
        "logprobs": "body fields logprobs and top_logprobs",
        "top_logprobs_20": "--max-logprobs 20 or more",
        "prompt_logprobs": "body field prompt_logprobs, not streamed",
        "token_id_prompts": "a list of ids as `prompt` on /v1/completions",
        "token_ids_returned": "body field return_token_ids",
        "native_scoring": "none; body field prompt_logprobs scores a prompt",
        "speculation_per_request": "--per-request-spec-decode-metrics summary",
        "tool_calls": "--enable-auto-tool-choice --tool-call-parser ling3",
        "reasoning": '--reasoning-parser ling3, and chat_template_kwargs {"enable_thinking": true}',
        "seed": "body field seed",
        "deterministic": "VLLM_BATCH_INVARIANT=1 where the model supports it",
    },
)
