"""The join of what came back and what it means, as the history keeps it."""

from __future__ import annotations

from harness.endpoint.raw import RawAnswer
from harness.endpoint.wire import Reading
from harness.records import Complete
from workloads.plan import Json


def to_complete(
    request_id: str, answer: RawAnswer, reading: Reading, *, times_offset: int | None = None, raw_kept: bool = False
) -> Complete:
    """The `complete` record of a request; the times of its events are `reading.event_times_ns`.

    Fields that no reader knew are named in extra["unread_fields"], so that nothing is dropped silently.
    """
    times = reading.event_times_ns
    extra: dict[str, Json] = dict(reading.extra)
    if reading.unread_fields:
        extra["unread_fields"] = list(reading.unread_fields)
    if answer.rate_limited:
        extra["rate_limited"] = answer.rate_limited
    if answer.connection_reused is not None:
        extra["connection_reused"] = answer.connection_reused
    if answer.process is not None:
        extra["process"] = answer.process
    return Complete(
        request_id=request_id,
        outcome=reading.outcome,
        error=reading.error,
        http_status=answer.http_status,
        sent_ns=answer.sent_ns,
        first_token_ns=times[0] if times else None,
        last_token_ns=times[-1] if times else None,
        end_ns=answer.end_ns,
        event_count=len(times),
        times_offset=times_offset,
        event_tokens=reading.event_tokens,
        first_event_tokens=_first_event_tokens(reading),
        output_tokens=reading.output_tokens,
        output_tokens_source=reading.output_tokens_source,
        usage=reading.usage,
        finish_reason=reading.finish_reason,
        text=reading.text,
        reasoning=reading.reasoning,
        tool_calls=_tool_calls(reading),
        retries=answer.retries,
        unparsed_events=reading.unparsed_events,
        raw_kept=raw_kept,
        extra=extra,
    )


def _first_event_tokens(reading: Reading) -> int | None:
    if not reading.event_times_ns:
        return None
    return reading.event_tokens[0] if reading.event_tokens is not None else 1


def _tool_calls(reading: Reading) -> Json:
    """Calls in OpenAI's shape; None without any."""
    if not reading.tool_calls:
        return None
    return [
        {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in reading.tool_calls
    ]
