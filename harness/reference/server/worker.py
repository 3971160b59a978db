"""The engine's thread, and the way between it and the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.request import Delta, Request
from harness.reference.server.errors import EngineFailedError, QueueFullError

T = TypeVar("T")
Sink = asyncio.Queue[Delta | EngineFailedError]


class EngineWorker:
    """Runs one engine in a thread of its own; everything else happens on the event loop.

    Deltas cross once per step, all together, so that HTTP does not slow the engine down. ``most_open`` is how many
    requests may run and wait together, None for any number.
    """

    def __init__(self, engine: Engine, name: str, most_open: int | None = None) -> None:
        self.engine = engine
        self.most_open = most_open
        self.failure: Exception | None = None
        self._inbox: deque[Callable[[], object]] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._sinks: dict[str, Sink] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._calls: set[asyncio.Future[Any]] = set()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_failure: Callable[[], None] | None = None

    def start(self, loop: asyncio.AbstractEventLoop, on_failure: Callable[[], None] | None = None) -> None:
        """Starts the thread; deltas go to ``loop``, which also calls ``on_failure`` if the engine stops by itself."""
        self._loop = loop
        self._on_failure = on_failure
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the step it is in."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def submit(self, request: Request, sink: Sink) -> None:
        """Hands a request to the engine; its deltas appear in the sink, which several requests may share.

        Raises:
            EngineFailedError: the engine has stopped.
            QueueFullError: so many requests are open already that this one may not even wait.
        """
        if self.failure is not None:
            raise EngineFailedError(str(self.failure))
        if self.most_open is not None and len(self._sinks) >= self.most_open:
            raise QueueFullError
        self._sinks[request.request_id] = sink
        self._idle.clear()
        self._post(lambda: self.engine.submit(request))

    def abort(self, request_id: str) -> None:
        """Ends a request whose client is gone."""
        if request_id in self._sinks:
            self._forget(request_id)
            self._post(lambda: self.engine.abort(request_id))

    async def idle(self) -> None:
        """Returns when no client waits for this engine any more."""
        await self._idle.wait()

    def end(self, request_id: str) -> None:
        """Ends a request whose client waits: it gets what there is, with finish reason ``abort``."""
        self._post(lambda: self.engine.abort(request_id))

    async def call(self, work: Callable[[Engine], T]) -> T:
        """Runs ``work`` on the engine's thread, between two steps.

        Raises:
            EngineFailedError: the engine has stopped.
        """
        if self.failure is not None:
            raise EngineFailedError(str(self.failure))
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._calls.add(future)
        future.add_done_callback(self._calls.discard)

        def job() -> None:
            result = work(self.engine)
            self._to_loop(lambda: None if future.done() else future.set_result(result))

        self._post(job)
        return await future

    def _post(self, job: Callable[[], object]) -> None:
        with self._wake:
            self._inbox.append(job)
            self._wake.notify()

    def _run(self) -> None:
        try:
            while self._take_jobs():
                if self.engine.busy:
                    deltas = self.engine.step()
                    if deltas:
                        self._to_loop(lambda deltas=deltas: self._deliver(deltas))  # type: ignore[misc]
        except Exception as failure:
            self.failure = failure
            self._to_loop(self._fail)

    def _take_jobs(self) -> bool:
        """Does what was posted, waiting for it when there is nothing else; False when it is time to stop."""
        with self._wake:
            while not (self._inbox or self.engine.busy or self._stopping):
                self._wake.wait()
            jobs, self._inbox = self._inbox, deque()
        for job in jobs:
            job()
        return not self._stopping

    def _to_loop(self, callback: Callable[[], None]) -> None:
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)

    def _deliver(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            sink = self._sinks.get(delta.request_id)
            if sink is not None:
                sink.put_nowait(delta)
                if delta.finish is not None:
                    self._forget(delta.request_id)

    def _forget(self, request_id: str) -> None:
        del self._sinks[request_id]
        if not self._sinks:
            self._idle.set()

    def _fail(self) -> None:
        for sink in self._sinks.values():
            sink.put_nowait(EngineFailedError(str(self.failure)))
        self._sinks.clear()
        for future in list(self._calls):
            if not future.done():
                future.set_exception(EngineFailedError(str(self.failure)))
        if self._on_failure is not None:
            self._on_failure()
