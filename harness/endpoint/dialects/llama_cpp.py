"""llama.cpp's server, read at b11434."""

from __future__ import annotations

from collections.abc import Mapping

from harness.endpoint.dialects.base import (
    Dialect,
    Flushed,
    Identity,
    Names,
    Settings,
    object_at,
    text_of,
    whole_of,
)
from harness.endpoint.dialects.flushing import object_in, posted, refusal
from harness.endpoint.errors import EndpointError
from harness.endpoint.side import ControlPort, JsonSource
from workloads.plan import Json

_DETAILS = ("total_slots", "model_path", "build_info")
_COUNTERS: Mapping[str, Names] = {
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


async def _identify(source: JsonSource) -> Identity:
    """The context of one slot stands in /props; the list of models has that of all slots together in older builds."""
    props = await object_at(source, "/props")
    settings = props.get("default_generation_settings")
    found = settings if isinstance(settings, dict) else {}
    details = {name: props[name] for name in _DETAILS if name in props}
    return Identity(
        version=text_of(props.get("build_info")), details=details, context_tokens=whole_of(found.get("n_ctx"))
    )


def _read_settings(details: Mapping[str, Json]) -> Settings:
    """Every slot has a cache of its own, cut at any token; a hybrid model's is restored from checkpoints.

    Whether it drafts is not told: `speculative.types` of /props is "none" on a server that drafts, too.
    """
    return Settings(
        data_parallel=1,
        tensor_parallel=1,
        disaggregation="none",
        state_dtype="float32",
        state_slots=whole_of(details.get("total_slots")),
    )


async def _flush(client: ControlPort) -> Flushed:
    """Every slot is erased; a prompt cache in the server's memory (`--cache-ram`) is not."""
    try:
        slots = object_in(await client.get_text("/props")).get("total_slots")
    except EndpointError as trouble:
        return Flushed(path=None, error=trouble.error)
    if not isinstance(slots, int):
        return Flushed(path=None, error=refusal("/props does not say how many slots there are", 404))
    found = Flushed(path=None, error=refusal("the server has no slot", 404))
    for slot in range(slots):
        found = await posted(client, f"/slots/{slot}?action=erase", lambda said: "n_erased" in object_in(said))
        if found.error is not None:
            return found
    return found


LLAMA_CPP = Dialect(
    name="llama.cpp",
    title="llama.cpp",
    owners=("llamacpp",),
    counter_prefixes=("llamacpp:",),
    sign=("/props", "total_slots"),
    identify=_identify,
    read_settings=_read_settings,
    counters=_COUNTERS,
    flush=_flush,
    salt_field=None,
    bypass_fields={"cache_prompt": False},
    token_id_fields={"return_tokens": True},
    prompt_logprobs=(),
    enable_with={
        "cached_tokens_by_tier": "none: there is one tier (and a prompt cache in RAM, --cache-ram)",
        "flush": "--slot-save-path DIR, for POST /slots/N?action=erase (and --cache-ram 0, whose cache is not erased)",
        "flush_while_busy": "a busy slot is erased when its request has ended",
        "salt": "none; body field cache_prompt: false keeps one request from the cache",
        "cache_bypass": "body field cache_prompt: false",
        "logprobs": "body fields logprobs and top_logprobs",
        "top_logprobs_20": "body field top_logprobs 20",
        "logprobs_with_speculation": "none: without --spec-type the alternatives come",
        "prompt_logprobs": "none: the fields are ignored",
        "token_id_prompts": "a list of ids as `prompt` on /v1/completions",
        "token_ids_returned": "body field return_tokens on /completion",
        "native_scoring": "none",
        "speculation_per_request": "nothing needed: timings.draft_n comes whenever it drafts",
        "counters": "--metrics",
        "tool_calls": "--jinja",
        "reasoning": '--reasoning-format deepseek, and chat_template_kwargs {"enable_thinking": true}',
        "seed": "body field seed",
    },
)
