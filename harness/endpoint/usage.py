"""Token counts as servers report them."""

from __future__ import annotations

from collections.abc import Mapping

from harness.records import Usage


def read_usage(usage: Mapping[str, object]) -> Usage:
    """The counts inside a `usage` object; None is "not reported", 0 is a reported zero.

    Reasoning tokens stand in completion_tokens_details (OpenAI, vLLM) or in usage itself (SGLang).
    """
    reasoning = _count(_details(usage, "completion_tokens_details"), "reasoning_tokens")
    return Usage(
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
        cached_tokens=_count(_details(usage, "prompt_tokens_details"), "cached_tokens"),
        reasoning_tokens=reasoning if reasoning is not None else _count(usage, "reasoning_tokens"),
    )


def _details(usage: Mapping[str, object], name: str) -> Mapping[str, object]:
    details = usage.get(name)
    return details if isinstance(details, Mapping) else {}


def _count(counts: Mapping[str, object], name: str) -> int | None:
    value = counts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
