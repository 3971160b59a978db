"""What a probe looks at, in the order in which it is shown."""

from __future__ import annotations

from collections.abc import Mapping

CAPABILITIES: Mapping[str, str] = {
    "cached_tokens_whole": "cached tokens in the usage of a whole answer",
    "cached_tokens_stream": "cached tokens in the usage of a stream",
    "cached_tokens_by_tier": "cached tokens of a request by memory tier",
    "flush": "emptying the cache by the server's own route",
    "flush_while_busy": "the same while a request runs",
    "salt": "a salt that keeps a request from older cache entries",
    "cache_bypass": "a request that does not read the cache",
    "logprobs": "log-probabilities of generated tokens",
    "top_logprobs_20": "20 alternatives for every token",
    "logprobs_with_speculation": "alternatives for every token while the server drafts",
    "prompt_logprobs": "log-probabilities of the prompt",
    "prompt_logprobs_bypass_cache": "asking them leaves the cache unread",
    "token_id_prompts": "prompts given as token ids",
    "token_ids_returned": "token ids of the answer",
    "tokenize": "the server's own tokenizer",
    "native_scoring": "the engine's own scoring route",
    "speculation_per_request": "drafts and accepted drafts of each request",
    "counters": "a page of counters",
    "tool_calls": "tool calls",
    "reasoning": "reasoning in a field of its own",
    "seed": "the same seed samples the same answer",
    "deterministic": "the same answer twice at temperature 0",
    "cancellation": "a dropped request stops generating",
    "cache_domains": "how many separate caches stand behind the address",
}

SETTINGS: Mapping[str, str] = {
    "block_tokens": "cache block or page",
    "chunk_tokens": "prefill chunk",
    "tensor_parallel": "TP",
    "data_parallel": "DP",
    "disaggregation": "prefill and decode apart",
    "state_dtype": "dtype of the recurrent state",
    "kv_dtype": "dtype of the KV cache",
    "state_strategy": "which states are kept",
    "cache_tokens": "tokens that the cache holds",
    "state_slots": "states that the cache holds",
    "speculation": "speculation",
    "speculative_tokens": "drafts of a step",
    "host_tier": "a cache tier in host memory",
}
