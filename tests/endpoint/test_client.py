"""The client against a server that misbehaves, over real sockets and on both receive paths."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Iterator

import pytest

from harness.clock import MonotonicClock
from harness.endpoint import client as client_module
from harness.endpoint.client import Client
from harness.endpoint.encode import EncodedRequest, encode_request
from harness.endpoint.errors import EndpointError
from harness.endpoint.raw import RawAnswer
from harness.endpoint.secret import Secret
from harness.endpoint.target import Target, Timeouts
from harness.endpoint.url import normalise_base_url
from harness.endpoint.wire import Reading, decode
from harness.records import ErrorKind, Outcome
from tests.endpoint.bad_server import (
    GOOD_EVENTS,
    GOOD_TEXT,
    STREAM_HEAD,
    BadServer,
    Request,
    Respond,
    always,
    chunk,
    delta,
    event,
    good_stream,
    plain,
)
from workloads.plan import Ask, TextPrompt

KEY = "sk-verysecretkey"
QUICK = Timeouts(connect_s=5, first_byte_s=0.05, stall_s=0.05, total_s=5)


@pytest.fixture(params=["lean", "stock"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The receive path under test."""
    if request.param == "stock":

        async def fails(_: object) -> bool:
            return False

        monkeypatch.setattr(client_module, "lean_path_works", fails)
    yield request.param


def target_of(url: str, timeouts: Timeouts | None = None) -> Target:
    timeouts = Timeouts(connect_s=5) if timeouts is None else timeouts
    return Target(base=normalise_base_url(url), model="m", api_key=Secret(KEY), timeouts=timeouts)


def encoded(target: Target, *, stream: bool = True) -> EncodedRequest:
    ask = Ask(key="k", prompt=TextPrompt(text="hello"), max_tokens=4, stream=stream)
    return encode_request(ask, target, {}, "r1")


async def send(url: str, timeouts: Timeouts | None = None, *, stream: bool = True) -> RawAnswer:
    target = target_of(url, timeouts)
    async with Client(target, MonotonicClock()) as client:
        return await client.send(encoded(target, stream=stream))


def ask_server(respond: Respond, timeouts: Timeouts | None = None, *, stream: bool = True) -> tuple[RawAnswer, Reading]:
    """One request to a server that answers with `respond`."""

    async def run() -> RawAnswer:
        async with BadServer(respond) as server:
            return await send(server.url, timeouts, stream=stream)

    answer = asyncio.run(run())
    return answer, decode(answer, stream=stream)


def assert_good(reading: Reading) -> None:
    assert reading.error is None
    assert reading.outcome is Outcome.OK
    assert reading.text == GOOD_TEXT
    assert reading.output_tokens == 2
    assert len(reading.event_times_ns) == 2


def test_a_good_stream_is_read_and_timed(path: str) -> None:
    answer, reading = ask_server(always(STREAM_HEAD, *(chunk(one) for one in GOOD_EVENTS), chunk(b"")))
    assert_good(reading)
    assert answer.sent_ns is not None
    assert answer.sent_ns <= reading.event_times_ns[0] <= reading.event_times_ns[1] <= answer.end_ns
    assert (answer.retries, answer.connection_reused) == (0, False)


def test_the_receive_path_is_chosen_by_the_self_test(path: str) -> None:
    async def run() -> str:
        async with Client(target_of("http://127.0.0.1:9"), MonotonicClock()) as client:
            return client.transport

    assert asyncio.run(run()) == path


@pytest.mark.parametrize(
    "wire",
    [
        (good_stream(),),
        tuple(good_stream()[at : at + 1] for at in range(len(good_stream()))),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + good_stream(),),
        (good_stream().removesuffix(b"\r\n") + b"X-Trailer: 1\r\n\r\n",),
        (STREAM_HEAD + chunk(b"".join(GOOD_EVENTS)).replace(b"\r\n", b";note=1\r\n", 1) + chunk(b""),),
        (STREAM_HEAD, chunk(b"".join(GOOD_EVENTS).replace(b"\n", b"\r\n")), chunk(b"")),
        (STREAM_HEAD, *(chunk(bytes([one])) for one in b"".join(GOOD_EVENTS)), chunk(b"")),
        (plain("200 OK", b"".join(GOOD_EVENTS), "Content-Type: text/event-stream"),),
        (plain("200 OK", b"".join(GOOD_EVENTS), "Content-Type: text/plain"),),
        (
            plain(
                "200 OK",
                gzip.compress(b"".join(GOOD_EVENTS)),
                "Content-Type: text/event-stream",
                "Content-Encoding: gzip",
            ),
        ),
    ],
    ids=[
        "one-piece",
        "byte-by-byte",
        "interim",
        "trailer",
        "extension",
        "crlf",
        "split-utf8",
        "length",
        "plain",
        "gzip",
    ],
)
def test_every_way_to_frame_a_stream_reads_the_same(path: str, wire: tuple[bytes, ...]) -> None:
    assert_good(ask_server(always(*wire))[1])


def test_a_body_that_ends_with_its_connection_is_read(path: str) -> None:
    head = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    assert_good(ask_server(always(head, *GOOD_EVENTS, close=True))[1])


def test_an_answer_that_is_not_streamed(path: str) -> None:
    body = (
        b'{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"completion_tokens":1}}'
    )
    _, reading = ask_server(always(plain("200 OK", body, "Content-Type: application/json")), stream=False)
    assert (reading.outcome, reading.text, reading.output_tokens) == (Outcome.OK, "hi", 1)
    assert reading.event_times_ns == ()


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("401 Unauthorized", Outcome.REFUSED),
        ("404 Not Found", Outcome.REFUSED),
        ("408 Request Timeout", Outcome.UNKNOWN),
        ("429 Too Many Requests", Outcome.REFUSED),
        ("500 Internal Server Error", Outcome.UNKNOWN),
        ("502 Bad Gateway", Outcome.UNKNOWN),
        ("503 Service Unavailable", Outcome.REFUSED),
    ],
)
def test_a_status_says_whether_the_request_ran(path: str, status: str, outcome: Outcome) -> None:
    body = b'{"error":{"message":"no","type":"x","code":1}}'
    answer, reading = ask_server(always(plain(status, body, "Content-Type: application/json", "Retry-After: 7")))
    assert reading.outcome is outcome
    assert reading.error is not None
    assert (reading.error.kind, reading.error.message) == (ErrorKind.HTTP_STATUS, "no")
    assert (reading.error.http_status, reading.error.retry_after_s) == (int(status[:3]), 7.0)
    assert answer.retries == 0


def test_a_redirect_is_reported_and_not_followed(path: str) -> None:
    async def run() -> tuple[RawAnswer, int]:
        async with BadServer(always(good_stream())) as other:
            moved = plain("307 Temporary Redirect", b"", f"Location: {other.url}/v1/chat/completions")
            async with BadServer(always(moved)) as server:
                return await send(server.url), len(other.requests)

    answer, followed = asyncio.run(run())
    assert followed == 0
    assert answer.error is not None
    assert "redirect to http://127.0.0.1" in answer.error.message
    assert decode(answer, stream=True).outcome is Outcome.REFUSED


def test_json_for_a_stream_is_not_a_stream(path: str) -> None:
    body = b'{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]}'
    _, reading = ask_server(always(plain("200 OK", body, "Content-Type: application/json")))
    assert reading.error is not None
    assert (reading.outcome, reading.error.kind) == (Outcome.UNKNOWN, ErrorKind.NOT_A_STREAM)
    assert reading.text == "hi"


def test_html_for_a_stream_is_not_a_stream(path: str) -> None:
    _, reading = ask_server(always(plain("200 OK", b"<html>login</html>", "Content-Type: text/html")))
    assert reading.error is not None
    assert reading.error.kind is ErrorKind.NOT_A_STREAM
    assert "login" in reading.error.message


def test_a_stream_without_a_finish_ended_early(path: str) -> None:
    _, reading = ask_server(always(STREAM_HEAD, chunk(delta("one")), chunk(b"")))
    assert reading.error is not None
    assert (reading.outcome, reading.error.kind) == (Outcome.UNKNOWN, ErrorKind.ENDED_EARLY)
    assert (reading.text, len(reading.event_times_ns)) == ("one", 1)


def test_an_empty_stream_ended_early(path: str) -> None:
    _, reading = ask_server(always(STREAM_HEAD, chunk(b"")))
    assert reading.error is not None
    assert reading.error.kind is ErrorKind.ENDED_EARLY


def test_a_connection_lost_midway_keeps_what_came(path: str) -> None:
    answer, reading = ask_server(always(STREAM_HEAD, chunk(delta("one")), chunk(delta("two"))[:-9], close=True))
    assert reading.error is not None
    assert (reading.outcome, reading.error.kind) == (Outcome.UNKNOWN, ErrorKind.DISCONNECTED)
    assert reading.text == "one"
    assert reading.unparsed_events == 1
    assert answer.retries == 0


def test_a_connection_lost_after_done_loses_nothing(path: str) -> None:
    _, reading = ask_server(always(STREAM_HEAD, *(chunk(one) for one in GOOD_EVENTS), close=True))
    assert_good(reading)
    assert "trouble_after_done" in reading.extra


def test_a_stall_midway_times_out(path: str) -> None:
    _, reading = ask_server(always(STREAM_HEAD, chunk(delta("one")), hang=True), QUICK)
    assert reading.error is not None
    assert (reading.outcome, reading.error.kind) == (Outcome.UNKNOWN, ErrorKind.STALL_TIMEOUT)
    assert reading.text == "one"


def test_a_server_that_never_answers_times_out(path: str) -> None:
    answer, reading = ask_server(always(hang=True), QUICK)
    assert reading.error is not None
    assert (reading.outcome, reading.error.kind) == (Outcome.UNKNOWN, ErrorKind.FIRST_BYTE_TIMEOUT)
    assert answer.sent_ns is not None


def test_an_answer_without_end_times_out_in_total(path: str) -> None:
    async def drip(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD)
        while True:
            writer.write(chunk(delta("x")))
            await writer.drain()
            await asyncio.sleep(0.01)

    _, reading = ask_server(drip, Timeouts(connect_s=5, first_byte_s=5, stall_s=5, total_s=0.1))
    assert reading.error is not None
    assert reading.error.kind is ErrorKind.TOTAL_TIMEOUT
    assert len(reading.event_times_ns) > 1


@pytest.mark.parametrize("done", [True, False])
def test_an_error_event_midway_is_an_error(path: str, done: bool) -> None:
    failed = event('{"error":{"message":"engine died","type":"x","param":null,"code":500}}')
    tail = (chunk(event("[DONE]")),) if done else ()
    _, reading = ask_server(always(STREAM_HEAD, chunk(delta("one")), chunk(failed), *tail, chunk(b"")))
    assert reading.error is not None
    assert (reading.outcome, reading.error.kind) == (Outcome.UNKNOWN, ErrorKind.STREAM_ERROR)
    assert (reading.error.message, reading.error.http_status, reading.text) == ("engine died", 500, "one")


def test_garbage_between_good_events_is_counted(path: str) -> None:
    pieces = (*GOOD_EVENTS[:2], event("{broken"), b"data: \xff\xfe\n\n", *GOOD_EVENTS[2:])
    _, reading = ask_server(always(STREAM_HEAD, *map(chunk, pieces), chunk(b"")))
    assert_good(reading)
    assert reading.unparsed_events == 2


def test_a_stream_of_garbage_is_garbage(path: str) -> None:
    _, reading = ask_server(always(STREAM_HEAD, chunk(event("@@@")), chunk(b"")))
    assert reading.error is not None
    assert (reading.outcome, reading.error.kind) == (Outcome.UNKNOWN, ErrorKind.GARBAGE)


def test_what_is_not_http_is_garbage(path: str) -> None:
    _, reading = ask_server(always(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", close=True))
    assert reading.error is not None
    assert (reading.outcome, reading.error.kind) == (Outcome.UNKNOWN, ErrorKind.GARBAGE)


def test_broken_framing_is_garbage(path: str) -> None:
    _, reading = ask_server(always(STREAM_HEAD, chunk(delta("one")), b"zz\r\n\r\n\r\n", hang=True), QUICK)
    assert reading.error is not None
    # aiohttp's own reader does not hear of a parser error in a body, so the stock path waits for its bound.
    expected = ErrorKind.GARBAGE if path == "lean" else ErrorKind.STALL_TIMEOUT
    assert (reading.outcome, reading.error.kind, reading.text) == (Outcome.UNKNOWN, expected, "one")


def test_an_unreachable_server_refused(path: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        answer = asyncio.run(send(f"http://127.0.0.1:{closed.getsockname()[1]}"))
    assert answer.error is not None
    assert (answer.error.kind, answer.sent_ns) == (ErrorKind.CONNECT, None)
    assert decode(answer, stream=True).outcome is Outcome.REFUSED


def test_an_unknown_host_refused(path: str) -> None:
    answer = asyncio.run(send("http://no-such-host.invalid"))
    assert answer.error is not None
    assert answer.error.kind in (ErrorKind.CONNECT, ErrorKind.CONNECT_TIMEOUT)
    assert decode(answer, stream=True).outcome is Outcome.REFUSED


def test_a_pooled_connection_found_dead_is_replaced_once_and_counted(path: str) -> None:
    async def dies_on_second_turn(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.turn == 1:
            writer.close()
        else:
            writer.write(good_stream())

    async def run() -> tuple[RawAnswer, list[Request]]:
        async with BadServer(dies_on_second_turn) as server:
            target = target_of(server.url)
            async with Client(target, MonotonicClock()) as client:
                await client.send(encoded(target))
                return await client.send(encoded(target)), server.requests

    answer, requests = asyncio.run(run())
    assert_good(decode(answer, stream=True))
    assert answer.retries == 1
    assert [request.connection for request in requests] == [0, 0, 1]


def test_a_new_connection_that_dies_is_not_retried(path: str) -> None:
    answer, reading = ask_server(always(close=True))
    assert reading.error is not None
    assert (reading.outcome, reading.error.kind) == (Outcome.UNKNOWN, ErrorKind.DISCONNECTED)
    assert answer.retries == 0


def test_a_pooled_connection_that_dies_after_the_first_bytes_is_not_retried(path: str) -> None:
    async def dies_midway(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(good_stream() if request.turn == 0 else STREAM_HEAD + chunk(delta("one")))
        if request.turn == 1:
            await writer.drain()
            writer.close()

    async def run() -> tuple[RawAnswer, int]:
        async with BadServer(dies_midway) as server:
            target = target_of(server.url)
            async with Client(target, MonotonicClock()) as client:
                await client.send(encoded(target))
                return await client.send(encoded(target)), len(server.requests)

    answer, requests = asyncio.run(run())
    assert (answer.retries, requests) == (0, 2)
    assert decode(answer, stream=True).outcome is Outcome.UNKNOWN


def test_a_cancelled_request_leaves_what_came(path: str) -> None:
    came = asyncio.Event()

    async def hangs(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(delta("one")))
        await writer.drain()
        came.set()
        await asyncio.Event().wait()

    async def run() -> list[RawAnswer]:
        partial: list[RawAnswer] = []
        async with BadServer(hangs) as server:
            target = target_of(server.url)
            async with Client(target, MonotonicClock()) as client:
                task = asyncio.create_task(client.send(encoded(target), on_cancel=partial.append))
                await came.wait()
                await asyncio.sleep(0.02)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
        return partial

    (answer,) = asyncio.run(run())
    reading = decode(answer, stream=True)
    assert reading.error is not None
    assert (reading.outcome, reading.error.kind, reading.text) == (Outcome.UNKNOWN, ErrorKind.CANCELLED, "one")


def test_an_answer_before_the_whole_request_was_taken_has_a_time_of_sending(path: str) -> None:
    answered = asyncio.Event()

    async def answers_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(plain("413 Too Large", b'{"error":{"message":"too large"}}'))
        await writer.drain()
        await answered.wait()
        writer.transport.abort()

    async def run() -> RawAnswer:
        server = await asyncio.start_server(answers_early, "127.0.0.1", 0)
        target = target_of(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        ask = Ask(key="k", prompt=TextPrompt(text="x" * 40_000_000), max_tokens=4)
        async with server, Client(target, MonotonicClock()) as client:
            answer = await client.send(encode_request(ask, target, {}, "r1"))
            answered.set()
            return answer

    answer = asyncio.run(run())
    assert (answer.http_status, answer.error and answer.error.message) == (413, "too large")
    assert answer.sent_ns is not None
    assert answer.sent_ns <= answer.end_ns


def test_opened_connections_are_the_ones_that_requests_use(path: str) -> None:
    async def run() -> tuple[int, int, list[bool | None]]:
        async with BadServer(always(good_stream())) as server:
            target = target_of(server.url)
            async with Client(target, MonotonicClock()) as client:
                opened = await client.open_connections(20)
                answers = await asyncio.gather(*(client.send(encoded(target)) for _ in range(20)))
            return opened, server.connections, [answer.connection_reused for answer in answers]

    assert asyncio.run(run()) == (20, 20, [True] * 20)


def test_connections_that_cannot_be_opened_are_a_shortfall(path: str) -> None:
    async def run() -> int:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            target = target_of(f"http://127.0.0.1:{closed.getsockname()[1]}")
            async with Client(target, MonotonicClock()) as client:
                return await client.open_connections(5)

    assert asyncio.run(run()) == 0


def test_the_key_reaches_the_server_and_nothing_else(path: str) -> None:
    async def echo(request: Request, writer: asyncio.StreamWriter) -> None:
        said = request.headers["authorization"]
        writer.write(STREAM_HEAD + chunk(delta(said)) + chunk(delta("", "stop")) + chunk(b""))

    async def scold(request: Request, writer: asyncio.StreamWriter) -> None:
        said = request.headers["authorization"]
        body = f'{{"error":{{"message":"bad key {said}"}}}}'.encode()
        writer.write(plain("401 Unauthorized", body, f"Server: for {said}"))

    for respond in (echo, scold):
        answer, reading = ask_server(respond)
        assert KEY not in repr(answer) + repr(reading)
        assert KEY.encode() not in answer.body
    assert reading.error is not None
    assert reading.error.message.startswith("bad key")


def test_side_requests_raise_their_trouble(path: str) -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.path == "/good":
            writer.write(plain("200 OK", b'{"a":1}'))
        elif request.path == "/text":
            writer.write(plain("200 OK", b"plain"))
        else:
            writer.write(plain("404 Not Found", b'{"detail":"Not Found"}'))

    async def run() -> None:
        async with BadServer(respond) as server, Client(target_of(server.url), MonotonicClock()) as client:
            assert await client.get_json("/good") == {"a": 1}
            assert await client.get_text("/text") == "plain"
            with pytest.raises(EndpointError, match="HTTP 404: Not Found"):
                await client.post_json("/missing", {})
            with pytest.raises(EndpointError, match="did not give JSON"):
                await client.get_json("/text")

    asyncio.run(run())


@pytest.mark.parametrize("events", [0, 1, 2])
def test_a_planned_abort_drops_the_connection(path: str, events: int) -> None:
    answer = asyncio.run(aborted(events))
    assert answer.error is not None and answer.error.kind is ErrorKind.CANCELLED
    assert len(answer.starts) >= events
    assert decode(answer, stream=True).outcome is Outcome.UNKNOWN


async def aborted(events: int) -> RawAnswer:
    """The answer of an endless stream that was dropped after so many pieces, which the server has noticed."""
    closed = asyncio.Event()

    async def endless(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD)
        try:
            while True:
                writer.write(chunk(delta("x")))
                await writer.drain()
                await asyncio.sleep(0.01)
        except ConnectionError:
            closed.set()

    async with BadServer(endless) as server:
        target = target_of(server.url)
        async with Client(target, MonotonicClock()) as client:
            ask = Ask(key="k", prompt=TextPrompt(text="hello"), max_tokens=4, abort_after_events=events)
            answer = await client.send(encode_request(ask, target, {}, "r1"))
            await asyncio.wait_for(closed.wait(), 5)
    return answer
