"""However the network cuts an answer, it reads the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.endpoint.chunked import ChunkedBody, FramingError
from harness.endpoint.exchange import Exchange
from harness.endpoint.sse import events
from harness.endpoint.transport import CURRENT_EXCHANGE, StampingHandler
from harness.endpoint.wire import decode
from tests.endpoint.bad_server import GOOD_EVENTS, STREAM_HEAD, chunk
from tests.endpoint.recordings import EXPECTED, raw_answer, recorded

STREAMS = [name for name in EXPECTED if EXPECTED[name]["stream"] and EXPECTED[name]["status"] == 200]


class Wire(asyncio.Transport):
    """A transport that goes nowhere."""

    def is_closing(self) -> bool:
        return False


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """`data` cut at the given places (taken modulo its length)."""
    ends = sorted({0, len(data), *(place % len(data) for place in places)})
    return [data[start:end] for start, end in pairwise(ends)]


def framed(body: bytes, places: Sequence[int]) -> bytes:
    """`body` in HTTP chunks cut at the given places."""
    return STREAM_HEAD + b"".join(chunk(part) for part in cut(body, places)) + chunk(b"")


async def receive(pieces: Sequence[bytes]) -> Exchange:
    """What the lean path keeps of an answer that arrives in `pieces`, one every nanosecond."""
    exchange = Exchange()
    ticks = iter(range(1, 10**9))
    handler = StampingHandler(asyncio.get_running_loop(), lambda: next(ticks))
    handler.connection_made(Wire())
    token = CURRENT_EXCHANGE.set(exchange)
    handler.set_response_params(read_until_eof=True)
    CURRENT_EXCHANGE.reset(token)
    for piece in pieces:
        handler.data_received(piece)
    message, payload = await handler.read()
    assert await payload.read() == b""
    exchange.keep_head(message.code, message.headers)
    return exchange


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(STREAMS),
    chunk_places=st.lists(st.integers(0, 10**6), max_size=40),
    piece_places=st.lists(st.integers(0, 10**6), max_size=60),
)
def test_any_cut_of_a_recorded_stream_reads_the_same(
    name: str, chunk_places: list[int], piece_places: list[int]
) -> None:
    whole = recorded(name)
    exchange = asyncio.run(receive(cut(framed(whole.body, chunk_places), piece_places)))
    answer = exchange.answer(10**9, None, ())
    assert answer.body == whole.body
    reading, expected = decode(answer, stream=True), decode(whole, stream=True)
    assert (reading.text, reading.usage, reading.tool_calls) == (expected.text, expected.usage, expected.tool_calls)
    assert (reading.event_tokens, reading.error) == (expected.event_tokens, expected.error)
    assert len(reading.event_times_ns) == len(expected.event_times_ns)
    assert list(reading.event_times_ns) == sorted(reading.event_times_ns)


@settings(max_examples=60, deadline=None)
@given(places=st.lists(st.integers(0, 10**6), max_size=60), line_end=st.sampled_from([b"\r\n", b"\r", b"\n"]))
def test_any_cut_with_any_line_end_reads_the_same(places: list[int], line_end: bytes) -> None:
    body = b"".join(GOOD_EVENTS).replace(b"\n", line_end)
    exchange = asyncio.run(receive(cut(framed(body, places), places[::-1])))
    assert exchange.answer(1, None, ()).body == body
    assert decode(raw_answer(body), stream=True).text == "Grüße 世界"


@given(
    texts=st.lists(st.text(max_size=8) | st.sampled_from(["index", "stop", '"', '","x":"', "\\", ""]), max_size=20),
    field=st.sampled_from(["content", "reasoning", "text"]),
)
def test_any_texts_are_read_whether_or_not_their_events_are_alike(texts: list[str], field: str) -> None:
    choices = [{"index": 0, field: text} if field == "text" else {"index": 0, "delta": {field: text}} for text in texts]
    closing = {"index": 0, "delta": {}, "finish_reason": "stop"}
    objects = [{"id": "x", "choices": [{**choice, "finish_reason": None}]} for choice in choices]
    objects.append({"id": "x", "choices": [closing]})
    reading = decode(raw_answer(b"".join(b"data: " + orjson.dumps(one) + b"\n\n" for one in objects)), stream=True)
    said = reading.reasoning if field == "reasoning" else reading.text
    assert (said if said is not None else "") == "".join(texts)
    assert len(reading.event_times_ns) == sum(text != "" for text in texts)
    assert reading.error is None


def test_an_event_is_timed_by_the_arrival_of_its_first_byte() -> None:
    first, second = GOOD_EVENTS[1], GOOD_EVENTS[2]
    pieces = [STREAM_HEAD, chunk(first + second[:5]), chunk(second[5:]) + chunk(b"")]
    exchange = asyncio.run(receive(pieces))
    # The head came at 1, the first piece of the body at 2, with the beginning of both events.
    assert decode(exchange.answer(9, None, ()), stream=True).event_times_ns == (2, 2)


@given(
    parts=st.lists(st.binary(min_size=1, max_size=50), max_size=10),
    places=st.lists(st.integers(0, 10**6), max_size=20),
    leftover=st.binary(max_size=5),
)
def test_chunked_framing_comes_off_at_any_cut(parts: list[bytes], places: list[int], leftover: bytes) -> None:
    wire = b"".join(map(chunk, parts)) + chunk(b"") + leftover
    body, alike = ChunkedBody(), ChunkedBody()
    payloads: list[bytes] = []
    body.feed_each(cut(wire, places), payloads)
    assert b"".join(payloads) == b"".join(parts)
    assert payloads == [alike.feed(piece) for piece in cut(wire, places)]
    assert (body.finished, body.leftover) == (alike.finished, alike.leftover) == (True, leftover)


def test_pieces_of_one_chunk_each_are_taken_whole() -> None:
    parts = [b"data: a\n\n", b"x" * 300, b"\r\n", b"0"]
    payloads: list[bytes] = []
    ChunkedBody().feed_each([chunk(part) for part in parts], payloads)
    assert payloads == parts


@pytest.mark.parametrize("wire", [b"zz\r\n", b"-5\r\n", b"3\r\nabcXX", b"1" * 9000])
def test_broken_framing_is_found(wire: bytes) -> None:
    with pytest.raises(FramingError):
        ChunkedBody().feed(wire)
    payloads: list[bytes] = []
    with pytest.raises(FramingError):
        ChunkedBody().feed_each([chunk(b"a"), wire], payloads)
    assert payloads == [b"a"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"data: a\n\ndata:b\n\n", [b"a", b"b"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b": comment\n\ndata: a\n\n", [b"a"]),
        (b"event: x\ndata: a\nid: 1\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b", [b"a", b"b"]),
        (b"data\n\n", [b""]),
        (b"event: x\ndata\n\n", [b""]),
        (b"\n\n\ndata:  a\n\n", [b" a"]),
        (b"", []),
    ],
)
def test_events_out_of_a_body(body: bytes, expected: list[bytes]) -> None:
    assert [event.data for event in events(body)] == expected


def test_an_event_keeps_its_name_and_place() -> None:
    (only,) = events(b": hello\n\nevent: sglext_ids\ndata: [1]\n\n")
    assert (only.offset, only.name) == (9, b"sglext_ids")


TEXTS = st.one_of(st.text(max_size=6), st.sampled_from(["", '"', "\\", '\\"', "\n\n", "data: ", '","', "é", "\u2028"]))


def spoken(text: str) -> bytes:
    return b"data: " + orjson.dumps({"id": "x", "choices": [{"index": 0, "text": text, "finish_reason": None}]})


@settings(max_examples=200, deadline=None)
@given(texts=st.lists(st.one_of(TEXTS, st.integers(0, 4)), max_size=40))
def test_events_that_are_read_together_say_what_they_say_one_by_one(texts: list[str | int]) -> None:
    odd = (b": ping", b"event: note\ndata: {}", b"data: {", b'data: {"usage": {"completion_tokens": 3}}', b"")
    blocks = [spoken(each) if isinstance(each, str) else odd[each] for each in texts]
    body = b"".join(block + b"\n\n" for block in blocks) + b"data: [DONE]\n\n"
    # Line breaks of the other kind are read event by event.
    other = body.replace(b"\n", b"\r\n")
    ours, apart = (decode(raw_answer(each), stream=True) for each in (body, other))
    assert (ours.text, ours.usage, ours.unparsed_events) == (apart.text, apart.usage, apart.unparsed_events)
    assert len(ours.event_times_ns) == len(apart.event_times_ns)
