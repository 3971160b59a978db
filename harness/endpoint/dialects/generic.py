"""Engines and gateways that differ from the OpenAI wire in little: the generic dialect, and the data of each."""

from __future__ import annotations

from harness.endpoint.dialects.base import Dialect, Flushed, Identity, object_at, text_of
from harness.endpoint.dialects.flushing import object_in, posted
from harness.endpoint.side import ControlPort, JsonSource

_PINNED = 'pin one provider, such as --extra-body \'{"provider": {"order": ["NAME"], "allow_fallbacks": false}}\''
_UPSTREAM = "a field that the proxy passes on; else ask the engine itself"


async def _says_nothing(source: JsonSource) -> Identity:
    return Identity(version=None)


async def _identify_litellm(source: JsonSource) -> Identity:
    return Identity(version=text_of((await object_at(source, "/health/readiness")).get("litellm_version")))


async def _flush_dynamo(client: ControlPort) -> Flushed:
    """Status 200 whatever happened: the workers that failed are listed."""
    return await posted(client, "/clear_kv_blocks", _says_all_workers)


def _says_all_workers(said: str) -> bool:
    content = object_in(said)
    return bool(content.get("cleared_workers")) and not content.get("failed_workers")


GENERIC = Dialect(
    name="generic",
    title="an OpenAI-compatible server",
    bypass_fields={"cache_prompt": False},
    tier_fields={"return_cached_tokens_details": True},
    token_id_fields={"return_token_ids": True},
    speculation_fields={"return_spec_tokens_details": True},
    score_path="/generate",
)

TENSORRT_LLM = Dialect(
    name="tensorrt-llm",
    title="TensorRT-LLM",
    owners=("tensorrt_llm",),
    counter_prefixes=("trtllm_",),
    # GET /metrics drains a queue of statistics that somebody else may read.
    metrics_path="/prometheus/metrics",
    counters={
        "cached_tokens": (("trtllm_prompt_cached_tokens_total",), ("trtllm_prompt_cache_hit_tokens_total",)),
        "running": (("trtllm_num_requests_running",),),
        "waiting": (("trtllm_num_requests_waiting",),),
        "kv_usage": (("trtllm_kv_cache_utilization",),),
        "spec_draft_tokens": (("trtllm_spec_decode_num_draft_tokens_total",),),
        "spec_accepted": (("trtllm_spec_decode_num_accepted_tokens_total",),),
    },
    forbids_unknown_fields=True,
    prompt_logprobs=(),
    enable_with={
        "cached_tokens_by_tier": "not per request; counters trtllm_prompt_cache_hit_tokens_total{cache_tier}",
        "flush": "none: no route empties the cache; a nonce before the prompt keeps requests cold",
        "salt": "body field cache_salt, in chats only",
        "cache_bypass": "none: unknown body fields are refused",
        "prompt_logprobs": "none",
        "token_id_prompts": "a list of ids as `prompt` on /v1/completions; prompt_token_ids in chats",
        "token_ids_returned": "body field detokenize: false on /v1/completions",
        "tokenize": "/_internal/tokenize in newer releases",
        "native_scoring": "none",
        "speculation_per_request": "nothing needed: avg_decoded_tokens_per_iter stands in each choice",
        "counters": "return_perf_metrics: true in the server's options, for /prometheus/metrics",
        "tool_calls": "--tool_parser, and tool_choice in the request (its default there is none)",
        "reasoning": "--reasoning_parser",
    },
)

DYNAMO = Dialect(
    name="dynamo",
    title="NVIDIA Dynamo",
    counter_prefixes=("dynamo_",),
    identify=_says_nothing,
    counters={
        "prompt_tokens": (("dynamo_frontend_input_sequence_tokens_sum",),),
        "generation_tokens": (
            ("dynamo_frontend_output_tokens_total",),
            ("dynamo_frontend_output_sequence_tokens_sum",),
        ),
        "cached_tokens": (("dynamo_frontend_cached_tokens_sum",),),
        "running": (("dynamo_frontend_active_requests",), ("dynamo_frontend_inflight_requests",)),
        "waiting": (("dynamo_frontend_queued_requests",),),
        "requests": (("dynamo_frontend_requests_total",),),
    },
    flush=_flush_dynamo,
    salt_field="cache_salt",
    prompt_logprobs=(),
    enable_with={
        "cached_tokens_by_tier": "none: the tiers are one number here",
        "flush": "POST /clear_kv_blocks on the frontend",
        "salt": 'body field nvext: {"cache_salt": ...}',
        "native_scoring": "none at the frontend; ask a worker",
        "speculation_per_request": "none at the frontend; --metrics-url of the workers has the counters",
        "counters": "/metrics of the frontend; --metrics-url of each worker's system port for the engine's own",
        "cache_domains": "header x-worker-instance-id pins a worker; without it a cold request may meet another one",
    },
)

LITELLM = Dialect(
    name="litellm",
    title="LiteLLM",
    sign=("/health/readiness", "litellm_version"),
    identify=_identify_litellm,
    gateway=True,
    enable_with={
        "cached_tokens_whole": "whatever switches it on in the engine behind",
        "cached_tokens_stream": "whatever switches it on in the engine behind",
        "flush": "not passed on; ask the engine itself",
        "salt": _UPSTREAM,
        "native_scoring": "not passed on; ask the engine itself",
        "counters": "--metrics-url of the engine behind",
        "cache_domains": "route to one deployment; header x-litellm-model-id names the one that answered",
    },
)

OPENROUTER = Dialect(
    name="openrouter",
    title="OpenRouter",
    model_sign="pricing",
    identify=_says_nothing,
    gateway=True,
    salt_field=None,
    prompt_logprobs=(),
    enable_with={
        "cached_tokens_whole": _PINNED,
        "cached_tokens_stream": _PINNED,
        "flush": "none; a nonce before the prompt keeps requests cold",
        "salt": "none; a nonce before the prompt keeps requests cold",
        "native_scoring": "none",
        "counters": "none",
        "tokenize": "none; --tokenizer PATH counts here",
        "cache_domains": _PINNED,
    },
)
