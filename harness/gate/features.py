"""What a profile may require of an endpoint, how it is seen, and how it is switched on where it is absent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.checks.history import Capabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """attribute: the capability that shows it, None if only checks do. checks: those that are about it, whose
    NOT_APPLICABLE means it is absent. enable_with: by engine, under "" for any other; what switches it on.
    """

    checks: tuple[str, ...] = ()
    attribute: str | None = None
    enable_with: Mapping[str, str] = field(default_factory=dict)

    def how(self, engine: str | None) -> str:
        """What to do where it is absent."""
        known = self.enable_with.get(engine if engine is not None else "")
        return known if known is not None else self.enable_with[""]


_CACHE = {
    "vllm": "--enable-prefix-caching, and --enable-prompt-tokens-details for the counts",
    "sglang": "leave --disable-radix-cache out, and --enable-cache-report for the counts",
    "llamacpp": "--cache-reuse 256 and no --no-cache-prompt",
    "": "the server's prefix cache, and its report of cached tokens in usage",
}
FEATURES: Mapping[str, Feature] = {
    "cached-tokens": Feature(
        attribute="cached_tokens", checks=("cached-tokens", "eviction", "billing"), enable_with=_CACHE
    ),
    "speculation": Feature(
        attribute="speculation",
        checks=("mtp", "spec-parity"),
        enable_with={
            "vllm": """--speculative-config '{"method": "mtp", "num_speculative_tokens": 3}'""",
            "sglang": "--speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-num-draft-tokens 4",
            "llamacpp": "--model-draft FILE --draft-max 3",
            "": "the server's speculative decoding (MTP)",
        },
    ),
    "host-tier": Feature(
        checks=("tiers",),
        enable_with={
            "vllm": "--kv-offloading-size GIB",
            "sglang": "--enable-hierarchical-cache --hicache-ratio 2",
            "": "the server's second cache tier",
        },
    ),
    "logprobs": Feature(
        attribute="logprobs",
        enable_with={
            "vllm": "--max-logprobs 20",
            "": "log-probabilities on the completions or the chat route, without which wrong answers are seen late",
        },
    ),
    "token-ids": Feature(
        attribute="token_id_prompts",
        enable_with={"": "/v1/completions with token ids as the prompt: ask the server itself, not a gateway"},
    ),
    "salt": Feature(
        attribute="salt",
        enable_with={"": "cache_salt of requests (vLLM and SGLang have it; a gateway has to pass it on)"},
    ),
    "flush": Feature(
        attribute="flush",
        enable_with={
            "vllm": "VLLM_SERVER_DEV_MODE=1, for /reset_prefix_cache; and --exclusive-server here",
            "": "a native flush of the cache; and --exclusive-server here",
        },
    ),
    "tools": Feature(
        checks=("tools",),
        enable_with={
            "vllm": "--enable-auto-tool-choice --tool-call-parser NAME",
            "sglang": "--tool-call-parser NAME",
            "llamacpp": "--jinja",
            "": "the server's tool call parser",
        },
    ),
    "reasoning": Feature(
        checks=("reasoning",),
        enable_with={
            "vllm": "--reasoning-parser NAME",
            "sglang": "--reasoning-parser NAME",
            "llamacpp": "--jinja --reasoning-format auto",
            "": "the server's reasoning parser",
        },
    ),
}


def seen(feature: Feature, known: Capabilities) -> bool | None:
    """Whether an endpoint has it; None if the capability round does not tell."""
    if feature.attribute is None:
        return None
    value = getattr(known, feature.attribute)
    return None if value is None else bool(value)


def demanded_by(check: str, required: frozenset[str]) -> str | None:
    """The required feature that a check is about; None if there is none."""
    return next((name for name in FEATURES if name in required and check in FEATURES[name].checks), None)
