"""How bytes get from the socket to an `Exchange`, at two prices.

The lean path subclasses aiohttp's ResponseHandler. Once the headers of a chunked answer are parsed, arriving bytes are
only stamped and kept; the framing is walked when the end seems to have come, and aiohttp's parser, which stands at
the start of a chunk, is handed the last chunk so that it releases the connection as usual. No task wakes and no parser
runs per token. The hooks are private to aiohttp, so `lean_path_works` tries them first; if they no longer fit, the
stock path reads through aiohttp's own stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, cast
from weakref import WeakSet

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from harness.endpoint.chunked import ChunkedBody, FramingError
from harness.endpoint.exchange import Exchange

CURRENT_EXCHANGE: ContextVar[Exchange | None] = ContextVar("current_exchange", default=None)
_LAST_CHUNK = b"0\r\n\r\n"
_HEAD_END = b"\r\n\r\n"
_LONGEST_HEAD_BYTES = 65536
_KEEPALIVE_S = 60.0

_SELF_TEST_PIECES = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n",
    b"9\r\ndata: 2\n\n\r\n",
    b"0\r\n\r\n",
)

NowNs = Callable[[], int]


class StampingHandler(ResponseHandler):
    """A response handler that stamps and keeps the bytes of a chunked answer instead of parsing them.

    The exchange is taken from the context of the task that sends, because a whole answer can arrive, and the connection
    be back in the pool, before that task runs again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, now_ns: NowNs) -> None:
        super().__init__(loop)
        self._now_ns = now_ns
        self._exchange: Exchange | None = None
        self._head = b""
        self._in_body = False

    def set_response_params(self, **options: Any) -> None:
        super().set_response_params(**options)
        self._exchange = CURRENT_EXCHANGE.get()
        self._head = b""
        self._in_body = False

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            super().data_received(data)
        elif self._in_body:
            exchange.arrivals_ns.append(self._now_ns())
            exchange.pieces.append(data)
            if len(data) < 4 or data.endswith(_HEAD_END):
                self._look_for_end(exchange)
        else:
            self._receive_head(exchange, data)

    def _receive_head(self, exchange: Exchange, data: bytes) -> None:
        at_ns = self._now_ns()
        exchange.untouched = False
        self._head += data
        end = self._head.find(_HEAD_END) + len(_HEAD_END)
        if end < len(_HEAD_END):
            if len(self._head) > _LONGEST_HEAD_BYTES:
                self._hand_over(self._head)
            return
        head, rest = self._head[:end], self._head[end:]
        self._head = b""
        if _is_interim(head):
            super().data_received(head)
            if rest:
                self._receive_head(exchange, rest)
        elif not _is_plain_chunked(head):
            self._hand_over(head + rest)
        else:
            exchange.framing = ChunkedBody()
            self._in_body = True
            super().data_received(head)
            if rest:
                exchange.arrivals_ns.append(at_ns)
                exchange.pieces.append(rest)
                self._look_for_end(exchange)

    def _look_for_end(self, exchange: Exchange) -> None:
        try:
            finished = exchange.take_off_framing()
        except FramingError:
            self._exchange = None
            self._drop()
            return
        if finished:
            self._exchange = None
            if exchange.framing is not None and exchange.framing.leftover:
                self.force_close()
            super().data_received(_LAST_CHUNK)

    def _drop(self) -> None:
        """Drop the connection; its loss wakes the sending task."""
        self.force_close()
        if self.transport is not None:
            self.transport.abort()

    def _hand_over(self, data: bytes) -> None:
        """Leave this answer to aiohttp's parser; the sending task stamps the pieces when it reads them."""
        self._exchange = None
        super().data_received(data)


class StampedRequest(aiohttp.ClientRequest):
    """A request that notes when it had been written and whether its connection had been in the pool."""

    now_ns: NowNs
    pooled: WeakSet[ResponseHandler]

    async def write_bytes(
        self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
    ) -> None:
        exchange = CURRENT_EXCHANGE.get()
        protocol = conn.protocol
        if exchange is not None and protocol is not None:
            exchange.writing_ns = self.now_ns()
            exchange.reused = protocol in self.pooled
            exchange.socket = _descriptor(protocol.transport)
            self.pooled.add(protocol)
        await super().write_bytes(writer, conn, content_length)
        if exchange is not None:
            exchange.written(self.now_ns())


def _descriptor(transport: asyncio.BaseTransport | None) -> int | None:
    """None for a transport without a socket of the system."""
    end = None if transport is None else transport.get_extra_info("socket")
    return None if end is None else cast(int, end.fileno())


def request_class(now_ns: NowNs, pooled: WeakSet[ResponseHandler]) -> type[StampedRequest]:
    """The request class of one client, bound to its clock and to the connections it has used."""
    return type("BoundRequest", (StampedRequest,), {"now_ns": staticmethod(now_ns), "pooled": pooled})


def connector(now_ns: NowNs, *, lean: bool, single_use: bool = False) -> aiohttp.TCPConnector:
    """A connector without any cap on connections; needs a running loop.

    single_use: every connection is new and closed after its answer.
    """
    keepalive_s = None if single_use else _KEEPALIVE_S
    made = aiohttp.TCPConnector(limit=0, force_close=single_use, keepalive_timeout=keepalive_s)
    if lean:
        made._factory = cast("partial[ResponseHandler]", partial(StampingHandler, asyncio.get_running_loop(), now_ns))
    return made


async def lean_path_works(now_ns: NowNs) -> bool:
    """Whether this aiohttp still has the hooks that the lean path uses: an answer is passed through one in memory."""
    exchange = Exchange()
    token = CURRENT_EXCHANGE.set(exchange)
    try:
        handler = StampingHandler(asyncio.get_running_loop(), now_ns)
        handler.connection_made(_MemoryTransport())
        handler.set_response_params(read_until_eof=True)
        for piece in _SELF_TEST_PIECES:
            handler.data_received(piece)
        message, payload = await asyncio.wait_for(handler.read(), 1.0)
        body = await asyncio.wait_for(payload.read(), 1.0)
        answer = exchange.answer(0, None, ())
        usable = connector(now_ns, lean=True)
        has_factory = isinstance(usable._factory, partial) and isinstance(usable._factory(), StampingHandler)
        await usable.close()
        return message.code == 200 and body == b"" and answer.body == b"data: 1\n\ndata: 2\n\n" and has_factory
    except (AttributeError, TypeError, TimeoutError, AssertionError, aiohttp.ClientError):
        return False
    finally:
        CURRENT_EXCHANGE.reset(token)


class _MemoryTransport(asyncio.Transport):
    def close(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False


def _is_interim(head: bytes) -> bool:
    return head[9:10] == b"1" and head.startswith(b"HTTP/1.")


def _is_plain_chunked(head: bytes) -> bool:
    """Whether the body is chunked and nothing else; a spelling not known here goes the stock way, which knows all."""
    lowered = head.lower()
    return b"\r\ntransfer-encoding: chunked\r\n" in lowered and b"\r\ncontent-encoding:" not in lowered
