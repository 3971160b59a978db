"""The framing of a streamed answer, read from its raw bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson

from harness.checks.framing import Framing
from harness.endpoint.sse import events, looks_like_events

_DONE = b"[DONE]"
_GENERATED = ("content", "reasoning", "reasoning_content", "tool_calls", "text")


def framing_of(body: bytes) -> Framing | None:
    """None if the body is no event stream; events that are no JSON objects are left to the decoder to count."""
    if not looks_like_events(body):
        return None
    reasons: list[str] = []
    texts_after_finish = done_markers = events_after_done = 0
    for event in events(body):
        events_after_done += done_markers > 0
        if event.data == _DONE:
            done_markers += 1
            continue
        choice = _first_choice(event.data)
        texts_after_finish += bool(reasons) and _generates(choice)
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            reasons.append(reason)
    return Framing(
        finish_reasons=tuple(reasons),
        texts_after_finish=texts_after_finish,
        done_markers=done_markers,
        events_after_done=events_after_done,
    )


def message_fields_of(body: bytes) -> frozenset[str]:
    """Fields of the first choice's message or deltas that held anything; empty for completions."""
    pieces = [event.data for event in events(body)] if looks_like_events(body) else [body]
    names: set[str] = set()
    for piece in pieces:
        choice = _first_choice(piece)
        message = choice.get("message", choice.get("delta"))
        if isinstance(message, Mapping):
            names.update(name for name, value in message.items() if value)
    return frozenset(names)


def _first_choice(data: bytes) -> Mapping[str, object]:
    try:
        content = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    choices = content.get("choices") if isinstance(content, dict) else None
    for choice in choices if isinstance(choices, Sequence) else ():
        if isinstance(choice, dict) and choice.get("index", 0) == 0:
            return choice
    return {}


def _generates(choice: Mapping[str, object]) -> bool:
    delta = choice.get("delta")
    holders = (choice, delta) if isinstance(delta, Mapping) else (choice,)
    return any(bool(holder.get(name)) for holder in holders for name in _GENERATED)
