"""What an answer means: raw bytes in, text, tokens, times and outcome out. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain

import orjson

from harness.endpoint.counting import Counted, count_tokens_of_events
from harness.endpoint.errors import outcome_of, short_message
from harness.endpoint.gateway import served_from_cache
from harness.endpoint.gather import Choice, Gathered
from harness.endpoint.logprobs import positions
from harness.endpoint.raw import RawAnswer
from harness.endpoint.sse import Events, looks_like_events
from harness.endpoint.template import TextTemplate
from harness.records import ErrorKind, Outcome, RequestError, TokenLogprob, TokenSource, Usage
from workloads.plan import Json, ToolCall

_DONE = b"[DONE]"
_FAILED_FINISHES = frozenset({"error", "abort"})
_HARMLESS_AFTER_DONE = frozenset({ErrorKind.DISCONNECTED, ErrorKind.GARBAGE, ErrorKind.STALL_TIMEOUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An answer understood; text and the like are those of the first choice.

    event_times_ns: arrival of the first byte of each event that carried generated tokens; empty for an answer that was
    not streamed. event_tokens: tokens of each such event; None means one each, or not known where the server's total
    differs. output_tokens_source says where output_tokens comes from; both None if there is no answer. token_ids /
    logprobs: None unless the server sent them. other_texts: of the further choices. unparsed_events: not JSON objects.
    unread_fields: names of fields that nothing here knows. extra: engine fields kept as they came.
    """

    outcome: Outcome
    error: RequestError | None
    text: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    other_texts: tuple[str | None, ...] = ()
    event_times_ns: tuple[int, ...] = ()
    event_tokens: tuple[int, ...] | None = None
    output_tokens: int | None = None
    output_tokens_source: TokenSource | None = None
    usage: Usage | None = None
    finish_reason: str | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None
    unparsed_events: int = 0
    unread_fields: tuple[str, ...] = ()
    extra: Mapping[str, Json] = field(default_factory=dict)


@dataclass(slots=True)
class _Parsed:
    gathered: Gathered
    streamed: bool
    done: bool = False
    unparsed: int = 0


def decode(answer: RawAnswer, *, stream: bool, count_tokens: Callable[[str], int] | None = None) -> Reading:
    """Read an answer to a request that asked for a stream or not.

    count_tokens: a tokenizer, used only where the server reports no usage and no token ids.
    """
    parsed = _parse(answer)
    gathered = parsed.gathered
    error = _error(answer, parsed, stream)
    first = gathered.choices.get(0, Choice())
    total = gathered.usage.completion_tokens if gathered.usage is not None else None
    counted = count_tokens_of_events(gathered.facts, total) if parsed.streamed else Counted((), None)
    output_tokens, source = _output_tokens(gathered, total, len(counted.offsets), count_tokens)
    extra = gathered.extra
    if error is None and answer.error is not None:
        extra = {**extra, "trouble_after_done": answer.error.message}
    return Reading(
        outcome=outcome_of(error, spoke=bool(counted.offsets)),
        error=error,
        text=first.text(),
        reasoning="".join(first.reasoning) if first.reasoning else None,
        tool_calls=first.tool_calls(),
        other_texts=tuple(choice.text() for index, choice in sorted(gathered.choices.items()) if index != 0),
        event_times_ns=_times(answer, counted.offsets),
        event_tokens=counted.tokens,
        output_tokens=output_tokens,
        output_tokens_source=source,
        usage=gathered.usage,
        finish_reason=first.finish_reason,
        token_ids=tuple(first.token_ids) if first.token_ids is not None else None,
        logprobs=tuple(chain.from_iterable(map(positions, first.logprobs))) if first.logprobs else None,
        unparsed_events=parsed.unparsed,
        unread_fields=tuple(sorted(gathered.unread_fields)),
        extra=extra,
    )


def _parse(answer: RawAnswer) -> _Parsed:
    content_type = answer.headers.get("content-type", "")
    if "text/event-stream" in content_type or looks_like_events(answer.body):
        return _parse_stream(answer.body)
    parsed = _Parsed(gathered=Gathered(), streamed=False)
    if answer.body:
        _add(parsed, answer.body, 0)
    return parsed


def _parse_stream(body: bytes) -> _Parsed:
    parsed = _Parsed(gathered=Gathered(), streamed=True)
    gathered = parsed.gathered
    template: TextTemplate | None = None
    reader = Events(body)
    for event in reader:
        if template is not None and template.take(event.data):
            gathered.facts.add_texts((event.offset,))
            if reader.plain:
                offsets, reader.position = template.run(body, reader.position)
                gathered.facts.add_texts(offsets)
        elif event.data == _DONE:
            parsed.done = True
        elif (content := _add(parsed, event.data, event.offset)) is not None:
            if event.name == b"error":
                gathered.take_error(content, named=True)
            template = gathered.template(content, event.data)
    return parsed


def _add(parsed: _Parsed, data: bytes, offset: int) -> Mapping[str, Json] | None:
    """Take in one object and return it; anything else is counted."""
    try:
        content = orjson.loads(data)
    except orjson.JSONDecodeError:
        content = None
    if not isinstance(content, dict):
        parsed.unparsed += 1
        return None
    parsed.gathered.add(content, offset)
    return content


def _error(answer: RawAnswer, parsed: _Parsed, stream: bool) -> RequestError | None:
    own = served_from_cache(answer.headers)
    if own is None:
        own = _error_inside(answer, parsed, stream)
    if answer.error is None:
        return own
    whole = own is None and parsed.done and answer.error.kind in _HARMLESS_AFTER_DONE
    return None if whole else answer.error


def _error_inside(answer: RawAnswer, parsed: _Parsed, stream: bool) -> RequestError | None:
    gathered = parsed.gathered
    finishes = [choice.finish_reason for choice in gathered.choices.values()]
    if gathered.error is not None:
        message = short_message(gathered.error, ())
        return RequestError(kind=ErrorKind.STREAM_ERROR, message=message, http_status=gathered.error_code)
    if stream and not parsed.streamed and answer.body:
        kind = answer.headers.get("content-type", "unknown content")
        return RequestError(kind=ErrorKind.NOT_A_STREAM, message=f"asked for a stream, got {kind}: {_start(answer)}")
    if not finishes and parsed.unparsed:
        return RequestError(kind=ErrorKind.GARBAGE, message=f"nothing in the answer could be read: {_start(answer)}")
    if not finishes or None in finishes:
        return RequestError(kind=ErrorKind.ENDED_EARLY, message="the answer ended without a finish_reason")
    for reason in finishes:
        if reason in _FAILED_FINISHES:
            return RequestError(kind=ErrorKind.STREAM_ERROR, message=f"the server gave finish_reason {reason}")
    return None


def _start(answer: RawAnswer) -> str:
    return short_message(answer.body[:120].decode("utf-8", errors="replace"), ())


def _output_tokens(
    gathered: Gathered, total: int | None, event_count: int, count_tokens: Callable[[str], int] | None
) -> tuple[int | None, TokenSource | None]:
    if total is not None:
        return total, TokenSource.USAGE
    choices = gathered.choices.values()
    ids = [choice.token_ids for choice in choices if choice.token_ids is not None]
    if ids and len(ids) == len(choices):
        return sum(map(len, ids)), TokenSource.TOKEN_IDS
    if count_tokens is not None and choices:
        return sum(count_tokens(_generated(choice)) for choice in choices), TokenSource.TOKENIZER
    return (event_count, TokenSource.EVENTS) if event_count else (None, None)


def _generated(choice: Choice) -> str:
    calls = (f"{call.name}{call.arguments}" for call in choice.tool_calls())
    return "".join(chain(choice.reasoning, choice.content if choice.content is not None else (), calls))


def _times(answer: RawAnswer, offsets: tuple[int, ...]) -> tuple[int, ...]:
    starts, arrivals = answer.starts, answer.arrivals_ns
    if not offsets:
        return ()
    first = bisect_left(starts, offsets[0])
    if starts[first : first + len(offsets)] == offsets:  # each event began a piece, as nearly all do
        return arrivals[first : first + len(offsets)]
    return tuple(arrivals[bisect_right(starts, offset) - 1] for offset in offsets)
