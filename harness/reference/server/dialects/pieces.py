"""Pieces of replies that the dialects share."""

from __future__ import annotations

from harness.reference.scheduler.request import FinishReason
from harness.reference.server.reply import Choice

Json = dict[str, object]


def finish_reason(choice: Choice) -> str | None:
    """``stop``, ``length``, ``abort``, or ``tool_calls`` when the answer ended on one; None while it goes on."""
    if choice.finish is None:
        return None
    if choice.calls and choice.finish.reason is FinishReason.STOP:
        return "tool_calls"
    return choice.finish.reason.value


def calls_body(choice: Choice) -> list[Json]:
    """The tool calls of a whole answer."""
    return [
        {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in choice.calls
    ]


def call_deltas(choice: Choice) -> list[Json]:
    """The tool calls of the newest delta: id and name once, then pieces of the arguments."""
    deltas: list[Json] = []
    for call in choice.fresh.calls:
        if call.name is not None:
            head = {"name": call.name, "arguments": ""}
            call_id = choice.calls[call.index].call_id
            deltas.append({"id": call_id, "type": "function", "index": call.index, "function": head})
        if call.arguments:
            deltas.append({"index": call.index, "function": {"arguments": call.arguments}})
    return deltas
