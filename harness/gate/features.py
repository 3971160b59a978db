"""What a profile may require of an endpoint, how it is seen, and how it is switched on where it is absent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.checks.history import Capabilities
from harness.endpoint.dialects import DIALECTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """attribute: the capability that shows it, None if only checks do. checks: those that are about it, whose
    NOT_APPLICABLE means it is absent. probed: what a probe calls it, under which each engine's dialect says how it is
    switched on; None if none does. enable_with: the same by engine, under "" for any other, where dialects say nothing.
    """

    checks: tuple[str, ...] = ()
    attribute: str | None = None
    probed: str | None = None
    enable_with: Mapping[str, str] = field(default_factory=dict)

    def how(self, engine: str | None) -> str:
        """What to do where it is absent."""
        name = engine if engine is not None else ""
        dialect = DIALECTS.get(name)
        said = dialect.enable_with.get(self.probed) if dialect is not None and self.probed is not None else None
        if said is not None:
            return said
        known = self.enable_with.get(name)
        return known if known is not None else self.enable_with[""]


FEATURES: Mapping[str, Feature] = {
    "cached-tokens": Feature(
        attribute="cached_tokens",
        checks=("cached-tokens", "eviction"),
        probed="cached_tokens_stream",
        enable_with={"": "the server's prefix cache, and its report of cached tokens in usage"},
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
        probed="top_logprobs_20",
        enable_with={"": "log-probabilities of answers, without which wrong ones are seen late"},
    ),
    "token-ids": Feature(
        attribute="token_id_prompts",
        probed="token_id_prompts",
        enable_with={"": "/v1/completions with token ids as the prompt: ask the server itself, not a gateway"},
    ),
    "salt": Feature(
        attribute="salt",
        probed="salt",
        enable_with={"": "cache_salt of requests (vLLM and SGLang have it; a gateway has to pass it on)"},
    ),
    "flush": Feature(
        attribute="flush",
        probed="flush",
        enable_with={"": "a native flush of the cache; and --exclusive-server here"},
    ),
    "tools": Feature(
        checks=("tools",),
        probed="tool_calls",
        enable_with={"": "the server's tool call parser"},
    ),
    "cost": Feature(
        checks=("billing",),
        enable_with={"": "the cost of an answer in its usage (OpenRouter and LiteLLM have it)"},
    ),
    "reasoning": Feature(
        checks=("reasoning",),
        probed="reasoning",
        enable_with={"": "the server's reasoning parser"},
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
