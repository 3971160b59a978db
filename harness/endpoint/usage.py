"""Token counts as servers report them."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from harness.endpoint.sse import events, looks_like_events
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


def usages_of(body: bytes) -> tuple[Usage, ...]:
    """Every `usage` object of an answer in its order, whole or streamed; what is no JSON object is passed over."""
    pieces = [event.data for event in events(body)] if looks_like_events(body) else [body]
    found = []
    for piece in pieces:
        try:
            content = orjson.loads(piece)
        except orjson.JSONDecodeError:
            continue
        usage = content.get("usage") if isinstance(content, dict) else None
        if isinstance(usage, dict):
            found.append(read_usage(usage))
    return tuple(found)


def _details(usage: Mapping[str, object], name: str) -> Mapping[str, object]:
    details = usage.get(name)
    return details if isinstance(details, Mapping) else {}


def _count(counts: Mapping[str, object], name: str) -> int | None:
    value = counts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
