"""The client: requests go out, raw answers come back, trouble is data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from io import BytesIO
from types import TracebackType
from typing import Literal, Self, cast
from weakref import WeakSet

import aiohttp
import orjson
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from yarl import URL

from harness.clock import NS_PER_S, Clock
from harness.endpoint.encode import EncodedRequest
from harness.endpoint.errors import EndpointError, short_message, status_error
from harness.endpoint.exchange import Exchange
from harness.endpoint.limits import raise_file_limit
from harness.endpoint.raw import RawAnswer
from harness.endpoint.target import Target
from harness.endpoint.transport import CURRENT_EXCHANGE, connector, lean_path_works, request_class
from harness.endpoint.watch import Watch
from harness.records import ErrorKind, RequestError
from workloads.plan import Json

PLANNED_ABORT = RequestError(kind=ErrorKind.CANCELLED, message="aborted as planned")
_OPENED_AT_ONCE = 64
_SIDE_REQUEST_S = 30.0
_UNNAMED_WAIT_S = 1.0
_LONGEST_WAIT_S = 120.0
_WRITTEN_AT_ONCE_BYTES = 1 << 20


class Client:
    """Talks to one target; use it as an async context manager.

    transport: the receive path that the self-test chose on entering, "lean" or "stock".
    """

    transport: Literal["lean", "stock"]

    def __init__(self, target: Target, clock: Clock) -> None:
        self.target = target
        self._clock = clock
        self._secrets = target.secrets()
        self._root = URL(target.base.root, encoded=True)
        self._pooled: WeakSet[ResponseHandler] = WeakSet()
        self._request_class = request_class(clock.now_ns, self._pooled)
        self._watch = Watch(clock, target.timeouts)
        self._side_timeout = aiohttp.ClientTimeout(total=_SIDE_REQUEST_S, connect=target.timeouts.connect_s)

    async def __aenter__(self) -> Self:
        lean = await lean_path_works(self._clock.now_ns)
        self.transport = "lean" if lean else "stock"
        self._session = self._open_session(lean=lean, single_use=False)
        self._single_use = self._open_session(lean=lean, single_use=True)
        # For pages of other hosts: they must not see the key.
        self._elsewhere = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        self._watch.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._watch.stop()
        await self._session.close()
        await self._single_use.close()
        await self._elsewhere.close()

    def _open_session(self, *, lean: bool, single_use: bool) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector(self._clock.now_ns, lean=lean, single_use=single_use),
            request_class=self._request_class,
            headers={"Accept-Encoding": "identity", **self.target.request_headers()},
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=self.target.timeouts.connect_s),
        )

    def _url(self, path: str) -> URL:
        return URL(f"{self._root}{path}", encoded=True)

    # -- requests that are measured

    async def send(self, request: EncodedRequest, *, on_cancel: Callable[[RawAnswer], None] | None = None) -> RawAnswer:
        """Send a request and wait for the end of its answer; trouble of the server or the network is in the result.

        If the calling task is cancelled, `on_cancel` gets what came so far (error kind CANCELLED) before the
        cancellation goes on. A pooled connection found dead before any byte of the answer is replaced once by a new one
        and counted in `retries`; a 429 is waited out and sent again where the target says so, counted there and in
        `rate_limited`. Nothing else is retried, and no redirect is followed. A request that its plan aborts ends with
        an error of the kind CANCELLED.
        """
        exchange = Exchange(request.abort_after_events)
        token = CURRENT_EXCHANGE.set(exchange)
        try:
            answer = await self._send_once(request, exchange)
            while (wait_ns := self._rate_limit_ns(answer, exchange)) is not None:
                await self._clock.sleep_until(self._clock.now_ns() + wait_ns)
                exchange.restart()
                exchange.rate_limited += 1
                exchange.retries += 1
                answer = await self._send_once(request, exchange)
        except asyncio.CancelledError:
            if on_cancel is not None:
                cancelled = RequestError(kind=ErrorKind.CANCELLED, message="the request was cancelled by us")
                on_cancel(exchange.answer(self._clock.now_ns(), cancelled, self._secrets))
            raise
        finally:
            CURRENT_EXCHANGE.reset(token)
        return answer

    async def _send_once(self, request: EncodedRequest, exchange: Exchange) -> RawAnswer:
        """One answer, over a new connection if the pooled one was dead."""
        error = await self._attempt(self._session, request, exchange)
        if error is not None and error.kind is ErrorKind.DISCONNECTED and exchange.reused and exchange.untouched:
            exchange.restart()
            exchange.retries += 1
            error = await self._attempt(self._single_use, request, exchange)
        return self._finish(exchange, error)

    def _rate_limit_ns(self, answer: RawAnswer, exchange: Exchange) -> int | None:
        """How long to wait before the request is sent again; None if it is not to be."""
        error = answer.error
        if error is None or error.http_status != 429 or exchange.rate_limited >= self.target.rate_limit_retries:
            return None
        asked_s = _UNNAMED_WAIT_S if error.retry_after_s is None else error.retry_after_s
        return round(min(asked_s, _LONGEST_WAIT_S) * NS_PER_S)

    async def _attempt(
        self, session: aiohttp.ClientSession, request: EncodedRequest, exchange: Exchange
    ) -> RequestError | None:
        """Fill `exchange` from one attempt; the error is None if the answer came to its end."""
        async with self._watch.over(exchange) as watched:
            exchange.cut_off_by(partial(watched.end, PLANNED_ABORT))
            try:
                # Longer bodies go piece by piece, so that one of them does not hold up the other streams.
                data = request.body if len(request.body) <= _WRITTEN_AT_ONCE_BYTES else BytesIO(request.body)
                async with session.post(
                    self._url(request.path), data=data, headers=request.headers, allow_redirects=False
                ) as response:
                    exchange.keep_head(response.status, response.headers)
                    await self._read(response, exchange)
            except (aiohttp.ClientError, OSError) as trouble:
                return self._trouble(trouble, exchange)
            return None
        return watched.error

    async def _read(self, response: aiohttp.ClientResponse, exchange: Exchange) -> None:
        """Wait for the end of the body; on the lean path nothing but the end comes this way."""
        while piece := await response.content.readany():
            if exchange.framing is None:
                exchange.arrivals_ns.append(self._clock.now_ns())
                exchange.pieces.append(piece)

    def _trouble(self, trouble: Exception, exchange: Exchange) -> RequestError:
        message = short_message(f"{type(trouble).__name__}: {trouble}", self._secrets)
        if isinstance(trouble, aiohttp.ConnectionTimeoutError):
            return RequestError(kind=ErrorKind.CONNECT_TIMEOUT, message=message)
        if isinstance(trouble, aiohttp.ClientConnectorError | aiohttp.InvalidURL):
            return RequestError(kind=ErrorKind.CONNECT, message=message)
        broken = isinstance(trouble, aiohttp.ClientResponseError) or exchange.bad_framing is not None
        return RequestError(kind=ErrorKind.GARBAGE if broken else ErrorKind.DISCONNECTED, message=message)

    def _finish(self, exchange: Exchange, error: RequestError | None) -> RawAnswer:
        answer = exchange.answer(self._clock.now_ns(), error, self._secrets)
        if answer.http_status is None or 200 <= answer.http_status < 300:
            return answer
        error = status_error(answer.http_status, answer.headers, answer.body, self._secrets, self._clock.utc_now())
        return replace(answer, error=error)

    def unread_bytes(self) -> int:
        """What has arrived for the requests in flight and has not been read."""
        return self._watch.unread_bytes()

    # -- connections opened before a cell

    async def open_connections(self, count: int) -> int:
        """Have `count` connections in the pool and return how many there are; the file limit is raised if it can be."""
        opened: list[Connection] = []
        possible = raise_file_limit(count)
        try:
            while len(opened) < possible:
                batch = min(_OPENED_AT_ONCE, possible - len(opened))
                results = await asyncio.gather(*(self._connect() for _ in range(batch)), return_exceptions=True)
                made = [result for result in results if isinstance(result, Connection)]
                opened.extend(made)
                if len(made) < batch:
                    break
            return len(opened)
        finally:
            for connection in opened:
                connection.release()

    async def _connect(self) -> Connection:
        made_for = self._request_class("GET", self._root, loop=asyncio.get_running_loop())
        pool = self._session.connector
        if pool is None:
            raise RuntimeError("the client is closed")
        connection = await pool.connect(made_for, traces=[], timeout=self._session.timeout)
        if connection.protocol is not None:
            self._pooled.add(connection.protocol)
        return connection

    # -- side requests: discovery, counters, tokenizing

    async def get_text(self, path: str) -> str:
        """The body of a GET; EndpointError on any trouble, a status other than 2xx included.

        path: from the server's root, or a whole address, which is asked without key and headers.
        """
        return (await self._side_request("GET", path, None)).decode("utf-8", errors="replace")

    async def get_json(self, path: str) -> Json:
        """The JSON of a GET; EndpointError on any trouble."""
        return self._json(path, await self._side_request("GET", path, None))

    async def post_json(self, path: str, body: Json) -> Json:
        """The JSON answer to a POST of JSON; EndpointError on any trouble."""
        return self._json(path, await self._side_request("POST", path, orjson.dumps(body)))

    async def post_text(self, path: str) -> str:
        """The body of the answer to an empty POST; EndpointError on any trouble."""
        return (await self._side_request("POST", path, b"")).decode("utf-8", errors="replace")

    def _json(self, path: str, body: bytes) -> Json:
        try:
            return cast(Json, orjson.loads(body))
        except orjson.JSONDecodeError:
            start = short_message(body[:120].decode("utf-8", errors="replace"), self._secrets)
            message = f"{path} did not give JSON but {start!r}"
            raise EndpointError(RequestError(kind=ErrorKind.GARBAGE, message=message)) from None

    async def _side_request(self, method: str, path: str, body: bytes | None) -> bytes:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        other = path.startswith(("http://", "https://"))
        session, url = (self._elsewhere, URL(path, encoded=True)) if other else (self._session, self._url(path))
        try:
            async with session.request(
                method, url, data=body, headers=headers, allow_redirects=False, timeout=self._side_timeout
            ) as response:
                content = await response.read()
                status, seen = response.status, {name.lower(): value for name, value in response.headers.items()}
        except TimeoutError:
            message = f"{path} gave no answer within {_SIDE_REQUEST_S:g} s"
            raise EndpointError(RequestError(kind=ErrorKind.TOTAL_TIMEOUT, message=message)) from None
        except (aiohttp.ClientError, OSError) as trouble:
            raise EndpointError(self._trouble(trouble, Exchange())) from None
        if not 200 <= status < 300:
            raise EndpointError(status_error(status, seen, content, self._secrets, self._clock.utc_now()))
        return content
