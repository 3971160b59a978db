"""Requests to asks, asks to the engines, answers back."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

import orjson
from aiohttp import web

from harness.reference.options import EngineOptions
from harness.reference.scheduler.request import Delta, Request
from harness.reference.server import exposition, fields
from harness.reference.server.ask import Ask, Route
from harness.reference.server.chat_text import Splitter
from harness.reference.server.dialects.base import Dialect
from harness.reference.server.errors import EngineFailedError, QueueFullError, RequestError
from harness.reference.server.parsing import Parser
from harness.reference.server.reply import Choice, Envelope
from harness.reference.server.request_log import RequestLog
from harness.reference.server.view import EngineView, view_of
from harness.reference.server.worker import EngineWorker, Sink
from harness.reference.tokenizer import Tokenizer

SSE_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
PREFIX = {Route.CHAT: "chatcmpl", Route.COMPLETION: "cmpl", Route.GENERATE: "gen"}


class Service:
    """Serves one model in one dialect, from one engine or several in turn."""

    def __init__(
        self,
        *,
        options: EngineOptions,
        tokenizer: Tokenizer,
        dialect: Dialect,
        parser: Parser,
        workers: list[EngineWorker],
        log: RequestLog | None,
    ) -> None:
        self.options = options
        self.tokenizer = tokenizer
        self.dialect = dialect
        self.parser = parser
        self.workers = workers
        self.log = log
        self.created_s = int(time.time())
        self.live: dict[str, tuple[EngineWorker, list[str]]] = {}
        self._turn = itertools.cycle(workers)
        self._serial = itertools.count()

    async def completions(self, http: web.Request) -> web.StreamResponse:
        """POST /v1/completions."""
        return await self.serve(http, self.parser.completion)

    async def chat(self, http: web.Request) -> web.StreamResponse:
        """POST /v1/chat/completions."""
        return await self.serve(http, self.parser.chat)

    def views(self) -> list[EngineView]:
        """What /metrics shows of each engine."""
        return [view_of(worker.engine, self.options, index) for index, worker in enumerate(self.workers)]

    async def metrics(self, _http: web.Request) -> web.Response:
        """GET /metrics."""
        body = exposition.text(self.dialect.metrics(self.views()))
        return web.Response(body=body, headers={"Content-Type": exposition.CONTENT_TYPE})

    async def models(self, _http: web.Request) -> web.Response:
        """GET /v1/models."""
        return json_response(self.dialect.models(self.created_s))

    async def serve(self, http: web.Request, parse: Callable[[fields.Json], Ask]) -> web.StreamResponse:
        """Answers a request for text that ``parse`` understands."""
        received_ns = time.monotonic_ns()
        try:
            ask = parse(fields.parse_object(await http.read()))
        except RequestError as error:
            return json_response(self.dialect.error(error), error.status)
        request_id = http.headers.get("X-Request-Id") or ask.given_id or uuid.uuid4().hex[:16]
        if self.log is not None:
            self.log.write(request_id, received_ns, ask)
        reply_id = self.dialect.reply_id(PREFIX[ask.route], request_id)
        envelope = Envelope(reply_id=reply_id, created_s=int(time.time()), ask=ask)
        return await self._answer(http, envelope, received_ns)

    async def _answer(self, http: web.Request, envelope: Envelope, received_ns: int) -> web.StreamResponse:
        """Runs an ask and makes sure nothing of it is left when the client has gone."""
        worker, sink = next(self._turn), Sink()
        requests = self._requests(envelope.ask, received_ns)
        self.live[envelope.reply_id] = worker, [request.request_id for request in requests]
        choices = {request.request_id: self._choice(envelope.ask, i, request) for i, request in enumerate(requests)}
        try:
            for request in requests:
                worker.submit(request, sink)
            if envelope.ask.stream:
                return await self._stream(http, envelope, choices, sink)
            return await self._whole(envelope, choices, sink)
        except EngineFailedError as failure:
            return json_response(self.dialect.error(engine_error(failure)), 500)
        except QueueFullError:
            return await self._refuse(http, envelope, self.dialect.queue_full())
        finally:
            self.live.pop(envelope.reply_id, None)  # clients may give one id twice
            for request_id in choices:
                worker.abort(request_id)

    async def _refuse(self, http: web.Request, envelope: Envelope, error: RequestError) -> web.StreamResponse:
        """Says no before anything was done, the way the dialect does it."""
        if not (envelope.ask.stream and self.dialect.refuses_in_stream()):
            return json_response(self.dialect.error(error), error.status)
        response = web.StreamResponse(headers=SSE_HEADERS)
        await response.prepare(http)
        done = b"data: [DONE]\n\n" if self.dialect.closes_after_error() else b""
        await response.write(event_bytes(self.dialect.stream_error(error)) + done)
        await response.write_eof()
        return response

    def _requests(self, ask: Ask, received_ns: int) -> list[Request]:
        """One engine request for each answer wanted; each of several to one prompt has a seed of its own."""
        serial = next(self._serial)
        return [
            Request(
                request_id=f"{serial}-{index}",
                prompt=prompt,
                sampling=replace(ask.sampling, seed=ask.sampling.seed + index % ask.n),
                cache_salt=ask.cache_salt,
                reads_cache=ask.reads_cache,
                score=ask.score,
                constraint=ask.constraint,
                received_ns=received_ns,
            )
            for index, prompt in enumerate(prompt for prompt in ask.prompts for _ in range(ask.n))
        ]

    def _choice(self, ask: Ask, index: int, request: Request) -> Choice:
        if ask.route is not Route.CHAT:
            return Choice(index=index, prompt=request.prompt)
        return Choice(
            index=index,
            prompt=request.prompt,
            splitter=Splitter(thinking=ask.thinking, tools=ask.calls_tools),
            think_end=self.parser.forms.think_end if ask.thinking else None,
        )

    async def _whole(self, envelope: Envelope, choices: dict[str, Choice], sink: Sink) -> web.Response:
        while any(choice.finish is None for choice in choices.values()):
            delta = _checked(await sink.get())
            choices[delta.request_id].add(delta)
        ordered = list(choices.values())
        return json_response(self.dialect.whole(envelope, ordered))

    async def _stream(
        self, http: web.Request, envelope: Envelope, choices: dict[str, Choice], sink: Sink
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=SSE_HEADERS)
        try:
            await response.prepare(http)
            await self._write_answer(response, envelope, choices, sink)
        except ConnectionError:
            pass  # the client has gone, and nobody is left to tell
        return response

    async def _write_answer(
        self, response: web.StreamResponse, envelope: Envelope, choices: dict[str, Choice], sink: Sink
    ) -> None:
        closed = True
        try:
            await self._write_deltas(response, envelope, choices, sink)
            events = self.dialect.last_events(envelope, list(choices.values()))
        except EngineFailedError as failure:
            events, closed = [self.dialect.stream_error(engine_error(failure))], self.dialect.closes_after_error()
        done = b"data: [DONE]\n\n" if closed else b""
        await response.write(b"".join(map(event_bytes, events)) + done)
        await response.write_eof()

    async def _write_deltas(
        self, response: web.StreamResponse, envelope: Envelope, choices: dict[str, Choice], sink: Sink
    ) -> None:
        """Writes events as deltas come; what has piled up goes out in one write."""
        while any(choice.finish is None for choice in choices.values()):
            events: list[bytes] = []
            waiting = [await sink.get()]
            while not sink.empty():
                waiting.append(sink.get_nowait())
            for item in waiting:
                delta = _checked(item)
                choice = choices[delta.request_id]
                choice.add(delta)
                events += map(event_bytes, self.dialect.events(envelope, choice))
            await response.write(b"".join(events))


def json_response(body: object, status: int = 200) -> web.Response:
    """A JSON answer."""
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")


def event_bytes(event: object) -> bytes:
    """One server-sent event."""
    return b"data: " + orjson.dumps(event) + b"\n\n"


def engine_error(failure: EngineFailedError) -> RequestError:
    """What a client hears when the engine has stopped."""
    return RequestError(f"EngineCore encountered an issue: {failure}", status=500, kind="InternalServerError")


def _checked(item: Delta | EngineFailedError) -> Delta:
    if isinstance(item, EngineFailedError):
        raise item
    return item
