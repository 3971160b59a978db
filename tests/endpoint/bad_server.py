"""A server over real sockets that misbehaves as told, byte by byte if need be."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client sent; `connection` counts the server's connections from 0, `turn` the requests on this one."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int
    turn: int


Respond = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class BadServer:
    """Answers each request with `respond`, which may leave the connection in any state."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self.requests: list[Request] = []
        self.connections = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=1024)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        connection, self.connections = self.connections, self.connections + 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            turn = 0
            while not writer.is_closing():
                request = await _read_request(reader, connection, turn)
                self.requests.append(request)
                await self._respond(request, writer)
                turn += 1
        writer.close()


async def _read_request(reader: asyncio.StreamReader, connection: int, turn: int) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method=method, path=path, headers=headers, body=body, connection=connection, turn=turn)


def chunk(data: bytes) -> bytes:
    """One HTTP chunk; of no data it is the last one."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(data: str) -> bytes:
    return f"data: {data}\n\n".encode()


def delta(text: str, finish: str | None = None) -> bytes:
    """A chat event with some text."""
    reason = "null" if finish is None else f'"{finish}"'
    return event(f'{{"choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":{reason}}}]}}')


GOOD_EVENTS = (
    event('{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}'),
    delta("Grüße"),
    delta(" 世界", "stop"),
    event(
        '{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}}}'
    ),
    event("[DONE]"),
)
GOOD_TEXT = "Grüße 世界"


def good_stream() -> bytes:
    return STREAM_HEAD + b"".join(chunk(one) for one in GOOD_EVENTS) + chunk(b"")


def plain(status: str, body: bytes, *headers: str) -> bytes:
    """An answer with a content length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def always(*pieces: bytes, close: bool = False, hang: bool = False) -> Respond:
    """Write the pieces, each on its own; then keep the connection, close it, or hang."""

    async def respond(_: Request, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if hang:
            await asyncio.Event().wait()
        if close:
            writer.close()

    return respond
