"""Shapes that the recordings do not hold, made by hand from the engines' documented behaviour."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from harness.endpoint.complete import to_complete
from harness.endpoint.counting import EventFacts, count_tokens_of_events
from harness.endpoint.errors import error_message, outcome_of, retry_after_s
from harness.endpoint.logprobs import positions
from harness.endpoint.raw import RawAnswer
from harness.endpoint.wire import Reading, decode
from harness.records import ErrorKind, Outcome, RequestError, TokenLogprob, TokenSource
from tests.endpoint.recordings import raw_answer, recorded

DONE = b"data: [DONE]\n\n"


def sse(*objects: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + orjson.dumps(one) + b"\n\n" for one in objects)


def said(delta: dict[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **fields}]}


def read(*objects: dict[str, Any]) -> Reading:
    return decode(raw_answer(sse(*objects) + DONE), stream=True)


def usage(tokens: int) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": tokens}}


def test_a_tool_call_comes_together_from_its_pieces() -> None:
    reading = read(
        said({"role": "assistant", "content": None}),
        said({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
        said({"tool_calls": [{"index": 0, "id": None, "function": {"name": None, "arguments": '{"x":'}}]}),
        said({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}]}),
        said({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}, "tool_calls"),
    )
    calls = [(call.call_id, call.name, call.arguments) for call in reading.tool_calls]
    assert calls == [("a", "f", '{"x":1}'), ("b", "g", "{}")]
    assert reading.text is None
    assert len(reading.event_times_ns) == 4


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_counts_as_generated(name: str) -> None:
    reading = read(said({"role": "assistant", "content": ""}), said({name: "hm"}), said({"content": "so"}, "stop"))
    assert (reading.reasoning, reading.text, len(reading.event_times_ns)) == ("hm", "so", 2)


def test_reasoning_sent_under_both_names_is_read_once() -> None:
    assert read(said({"reasoning": "hm", "reasoning_content": "hm"}, "stop")).reasoning == "hm"


def test_an_empty_string_with_a_token_id_carries_a_token() -> None:
    reading = read(
        said({"role": "assistant", "content": ""}),
        said({"content": ""}, token_ids=[5]),
        said({"content": "é"}, "stop", token_ids=[6, 7]),
    )
    assert (reading.event_tokens, reading.token_ids) == ((1, 2), (5, 6, 7))
    assert (reading.output_tokens, reading.output_tokens_source) == (3, TokenSource.TOKEN_IDS)


def test_a_final_empty_chunk_carries_no_token() -> None:
    assert len(read(said({"content": "a"}), said({}, "length"), usage(2)).event_times_ns) == 1
    assert len(read(said({"content": "a"}), said({"content": ""}, "length"), usage(2)).event_times_ns) == 1


def test_running_usage_counts_tokens_of_events() -> None:
    chunks = [said({"content": "ab"}) | {"usage": {"completion_tokens": 3}}]
    chunks += [said({"content": "c"}, "stop") | {"usage": {"completion_tokens": 4}}]
    assert read(*chunks).event_tokens == (3, 1)


def test_without_evidence_the_tokens_of_events_are_not_known() -> None:
    reading = read(said({"content": "ab"}), said({"content": "c"}, "stop"), usage(9))
    assert (reading.event_tokens, reading.output_tokens, len(reading.event_times_ns)) == (None, 9, 2)


def test_evidence_that_disagrees_with_the_total_is_not_used() -> None:
    facts = EventFacts()
    for offset in (0, 9):
        facts.add(offset, speaks=True, ids=2)
    assert count_tokens_of_events(facts, 5).tokens is None
    assert count_tokens_of_events(facts, 4).tokens == (2, 2)
    assert count_tokens_of_events(EventFacts(), 0).offsets == ()


def test_several_choices_are_kept_apart() -> None:
    choices = [{"index": index, "text": text, "finish_reason": "stop"} for index, text in ((1, "b"), (0, "a"))]
    reading = decode(raw_answer(orjson.dumps({"choices": choices})), stream=False)
    assert (reading.text, reading.other_texts) == ("a", ("b",))


def test_an_unknown_field_is_named() -> None:
    reading = read(said({"content": "a", "vibe": 1}, "stop", mood=2) | {"zeal": 3, "ether": None})
    assert reading.unread_fields == ("choices.message.vibe", "choices.mood", "zeal")
    complete = to_complete("r", raw_answer(b""), reading)
    assert complete.extra["unread_fields"] == ["choices.message.vibe", "choices.mood", "zeal"]


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_a_failed_finish_is_an_error(reason: str) -> None:
    reading = read(said({"content": "a"}, reason))
    assert reading.error is not None
    assert (reading.outcome, reading.error.kind) == (Outcome.UNKNOWN, ErrorKind.STREAM_ERROR)


def test_an_error_beside_choices_is_an_error() -> None:
    reading = read(said({"content": ""}, "error") | {"error": {"code": 502, "message": "upstream"}})
    assert reading.error is not None
    assert (reading.error.message, reading.error.http_status) == ("upstream", 502)


@pytest.mark.parametrize(
    ("message", "code", "outcome"),
    [
        ("The request queue is full.", 503, Outcome.REFUSED),
        ("All workers are busy, please retry later", 503, Outcome.REFUSED),
        ("the request timed out", 503, Outcome.UNKNOWN),
        ("the queue is full of trouble", 500, Outcome.UNKNOWN),
    ],
)
def test_an_error_as_the_first_event_is_refused_only_if_the_queue_was_full(
    message: str, code: int, outcome: Outcome
) -> None:
    error = {"error": {"object": "error", "message": message, "type": "SERVICE_UNAVAILABLE", "code": code}}
    reading = read(error)
    assert reading.error is not None
    assert (reading.outcome, reading.error.message) == (outcome, message)
    assert read(said({"content": "a"}), error).outcome is Outcome.UNKNOWN


def test_an_event_named_error_is_an_error_whatever_its_shape() -> None:
    body = sse(said({"content": "a"})) + b'event: error\ndata: {"reason": "gone"}\n\n'
    reading = decode(raw_answer(body), stream=True)
    assert reading.error is not None
    assert (reading.error.kind, reading.error.message) == (ErrorKind.STREAM_ERROR, '{"reason":"gone"}')


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"message":"m"}}', "m"),
        (b'{"error":"m"}', "m"),
        (b'{"error":{"reason":1}}', '{"reason":1}'),
        (b'{"object":"error","message":"m"}', "m"),
        (b'{"detail":"m"}', "m"),
        (b'{"detail":[{"loc":1}]}', '[{"loc":1}]'),
        (b"<h1>Bad</h1>", "<h1>Bad</h1>"),
        (b"", ""),
        (b"[1]", "[1]"),
    ],
)
def test_messages_of_error_bodies(body: bytes, message: str) -> None:
    assert error_message(body) == message


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("3", 3.0), ("-1", 0.0), ("Sun, 29 Nov 2026 00:00:10 GMT", 10.0), ("soon", None)],
)
def test_retry_after_is_seconds_or_a_date(value: str, seconds: float | None) -> None:
    now = datetime(2026, 11, 29, tzinfo=UTC)
    assert retry_after_s({"retry-after": value}, now) == seconds
    assert retry_after_s({}, now) is None


@pytest.mark.parametrize("kind", list(ErrorKind))
def test_only_what_surely_did_not_run_is_refused(kind: ErrorKind) -> None:
    refused = kind in (ErrorKind.CONNECT, ErrorKind.CONNECT_TIMEOUT, ErrorKind.GATEWAY_CACHE)
    assert outcome_of(RequestError(kind=kind, message="")) is (Outcome.REFUSED if refused else Outcome.UNKNOWN)


def test_logprobs_in_the_chat_shape() -> None:
    logprobs = decode(recorded("vllm-qwen3/chat_lp20_stream"), stream=True).logprobs
    assert logprobs is not None
    assert (len(logprobs), len(logprobs[0].top), logprobs[0].token) == (3, 20, "utually")
    assert logprobs[0].logprob == pytest.approx(-2.0958, abs=1e-4)
    assert logprobs[0].top[0] == ("utually", logprobs[0].logprob)


def test_logprobs_in_the_legacy_shape() -> None:
    logprobs = decode(recorded("sglang-qwen3/comp_logprobs20"), stream=False).logprobs
    assert logprobs is not None
    assert [position.token for position in logprobs] == ["usage", " datetime", "ataclass", "bug"]
    assert all(len(position.top) == 20 for position in logprobs)


def test_logprobs_of_llama_cpp_completions_name_token_ids_and_can_be_fewer_than_tokens() -> None:
    logprobs = decode(recorded("llama-bailing3/comp_logprobs5_stream"), stream=True).logprobs
    assert logprobs is not None
    assert [position.token_id for position in logprobs][:2] == [100, 383]
    short = decode(recorded("llama-bailing3/chat_lp20_stream"), stream=True)
    assert short.logprobs is not None
    assert short.output_tokens is not None
    assert len(short.logprobs) < short.output_tokens


def test_logprobs_that_are_absent_or_odd() -> None:
    assert decode(recorded("vllm-qwen3/comp"), stream=False).logprobs is None
    assert positions(None) == ()
    assert positions({"content": None}) == ()
    assert positions({"tokens": ["a"], "token_logprobs": [None], "top_logprobs": [None]}) == (
        TokenLogprob(token="a", logprob=None),
    )


def test_an_echoed_prompt_has_no_logprob_for_its_first_token() -> None:
    logprobs = decode(recorded("vllm-qwen3/comp_echo_lp"), stream=False).logprobs
    assert logprobs is not None
    assert logprobs[0].logprob is None
    assert all(position.logprob is not None for position in logprobs[1:])


def test_the_complete_record_joins_answer_and_reading() -> None:
    answer = recorded("llama-bailing3/comp_stream")
    complete = to_complete("r1", answer, decode(answer, stream=True), times_offset=3, raw_kept=True)
    assert (complete.request_id, complete.times_offset, complete.raw_kept) == ("r1", 3, True)
    assert (complete.event_count, complete.output_tokens, complete.first_event_tokens) == (11, 12, 1)
    assert (complete.first_token_ns, complete.last_token_ns) == (5_000_000, 5_000_000)
    assert complete.usage is not None
    assert complete.usage.cached_tokens == 2
    assert complete.event_tokens is None


def test_an_answer_that_never_came_is_a_record_too() -> None:
    error = RequestError(kind=ErrorKind.CONNECT, message="refused")
    answer = RawAnswer(
        http_status=None, headers={}, sent_ns=None, body=b"", starts=(), arrivals_ns=(), end_ns=9, error=error
    )
    complete = to_complete("r1", answer, decode(answer, stream=True))
    assert (complete.outcome, complete.error) == (Outcome.REFUSED, error)
    assert (complete.event_count, complete.output_tokens, complete.text) == (0, None, None)
