"""A sender whose requests are carried by several processes.

The plan, the levels and the history stay in one place, so results do not depend on how many processes there are; what
is spread over them is what costs: the sockets and every arriving byte. All read the same monotonic clock of the
machine, so their times need no correction.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from harness.clock import Clock
from harness.drive.health import MeterReading
from harness.drive.workers.messages import Cancel, Channel, Hello, Open, Reply, Send, StartMeter, StopMeter
from harness.endpoint.client import Client
from harness.endpoint.encode import EncodedRequest
from harness.endpoint.raw import RawAnswer
from harness.endpoint.target import Target
from harness.records import ErrorKind, RequestError

START_S = 30.0
CANCEL_S = 5.0


class WorkersDied(Exception):
    """A worker process did not start, or ended while something other than a request was asked of it."""


class _Worker:
    """The parent's side of one process."""

    def __init__(self, index: int, process: asyncio.subprocess.Process, channel: Channel) -> None:
        self.index = index
        self.process = process
        self._channel = channel
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[object]] = {}
        self.sending = 0
        self.trouble: str | None = None
        self._listener = asyncio.create_task(self._listen())

    async def greet(self, target: Target) -> None:
        """Tell it whom to ask and wait until it can."""
        ready = self._await_reply(0)
        self._channel.send(Hello.of(target))
        try:
            await asyncio.wait_for(ready, START_S)
        except TimeoutError:
            raise WorkersDied(f"worker process {self.index} was not ready within {START_S:g} s") from None

    async def _listen(self) -> None:
        try:
            while True:
                reply = await self._channel.receive()
                if isinstance(reply, Reply) and (future := self._pending.pop(reply.number, None)) is not None:
                    future.set_result(reply.value)
        except EOFError:
            code = await self.process.wait()
            self.trouble = f"worker process {self.index} ended early (exit code {code})"
            for future in self._pending.values():
                future.set_exception(WorkersDied(self.trouble))
                future.exception()  # Looked at: a request that was cut off no longer waits for it.
            self._pending.clear()

    def _await_reply(self, number: int) -> asyncio.Future[object]:
        future = asyncio.get_running_loop().create_future()
        if self.trouble is not None:
            future.set_exception(WorkersDied(self.trouble))
        else:
            self._pending[number] = future
        return future

    async def open_connections(self, count: int) -> int:
        """As `Client.open_connections`."""
        number = next(self._numbers)
        reply = self._await_reply(number)
        self._channel.send(Open(number=number, count=count))
        opened = await reply
        assert isinstance(opened, int)
        return opened

    async def start_meter(self) -> None:
        """It measures itself from here on."""
        number = next(self._numbers)
        reply = self._await_reply(number)
        self._channel.send(StartMeter(number=number))
        await reply

    async def stop_meter(self) -> MeterReading:
        """What it measured."""
        number = next(self._numbers)
        reply = self._await_reply(number)
        self._channel.send(StopMeter(number=number))
        reading = await reply
        assert isinstance(reading, MeterReading)
        return reading

    async def send(self, request: EncodedRequest, on_cancel: Callable[[RawAnswer], None] | None) -> RawAnswer:
        """As `Client.send`; WorkersDied if the process ends before the answer does."""
        number = next(self._numbers)
        reply = self._await_reply(number)
        self._channel.send(Send(number=number, request=replace(request, prompt=b"", parameters={})))
        self.sending += 1
        try:
            answer = await asyncio.shield(reply)
        except asyncio.CancelledError:
            self._channel.send(Cancel(number=number))
            if on_cancel is not None and (partial := await _within(reply, CANCEL_S)) is not None:
                on_cancel(partial)
            raise
        finally:
            self.sending -= 1
        assert isinstance(answer, RawAnswer)
        return answer

    async def stop(self) -> None:
        """Close the channel, at which the process ends."""
        self._listener.cancel()
        self._channel.close()
        try:
            await asyncio.wait_for(self.process.wait(), CANCEL_S)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


async def _within(reply: asyncio.Future[object], seconds: float) -> RawAnswer | None:
    """The answer if it comes in time; None if it does not or the process is gone."""
    try:
        answer = await asyncio.wait_for(asyncio.shield(reply), seconds)
    except (TimeoutError, WorkersDied):
        return None
    return answer if isinstance(answer, RawAnswer) else None


class WorkerPool:
    """Sends by the least busy living worker; the few requests that are not measured go the parent's own way."""

    def __init__(self, client: Client, clock: Clock, workers: Sequence[_Worker]) -> None:
        self._client = client
        self._clock = clock
        self._workers = workers

    @property
    def target(self) -> Target:
        """Whom it talks to."""
        return self._client.target

    @property
    def troubles(self) -> tuple[str, ...]:
        """What became of workers that ended early."""
        return tuple(each.trouble for each in self._workers if each.trouble is not None)

    def _alive(self) -> list[_Worker]:
        return [each for each in self._workers if each.trouble is None]

    async def open_connections(self, count: int) -> int:
        """Have `count` connections in the pools of all workers together; returns how many there are."""
        alive = self._alive()
        shares = [count // len(alive) + (place < count % len(alive)) for place in range(len(alive))] if alive else []
        return sum(
            await asyncio.gather(
                *(each.open_connections(share) for each, share in zip(alive, shares, strict=True) if share)
            )
        )

    async def send(self, request: EncodedRequest, *, on_cancel: Callable[[RawAnswer], None] | None = None) -> RawAnswer:
        """Send and wait for the whole answer; that of a worker which ends meanwhile is unknown."""
        alive = self._alive()
        if not alive:
            return self._lost("no worker process is left")
        try:
            return await min(alive, key=lambda each: each.sending).send(request, on_cancel)
        except WorkersDied as death:
            return self._lost(str(death))

    def _lost(self, message: str) -> RawAnswer:
        return RawAnswer(
            http_status=None,
            headers={},
            sent_ns=None,
            body=b"",
            starts=(),
            arrivals_ns=(),
            end_ns=self._clock.now_ns(),
            error=RequestError(kind=ErrorKind.HARNESS_DIED, message=message),
        )

    async def get_text(self, path: str) -> str:
        """As `Client.get_text`."""
        return await self._client.get_text(path)

    async def post_text(self, path: str) -> str:
        """As `Client.post_text`."""
        return await self._client.post_text(path)

    async def start_meters(self) -> None:
        """Every worker measures itself from here on."""
        await asyncio.gather(*(each.start_meter() for each in self._alive()), return_exceptions=True)

    async def stop_meters(self) -> tuple[MeterReading, ...]:
        """What the living workers measured."""
        readings = await asyncio.gather(*(each.stop_meter() for each in self._alive()), return_exceptions=True)
        return tuple(each for each in readings if isinstance(each, MeterReading))


@asynccontextmanager
async def worker_pool(client: Client, clock: Clock, count: int) -> AsyncIterator[WorkerPool]:
    """`count` worker processes, ended with the context.

    Raises:
        WorkersDied: one of them did not start.
    """
    workers: list[_Worker] = []
    try:
        for index in range(count):
            workers.append(await _spawn(index))
        await asyncio.gather(*(each.greet(client.target) for each in workers))
        yield WorkerPool(client, clock, workers)
    finally:
        await asyncio.gather(*(each.stop() for each in workers))


async def _spawn(index: int) -> _Worker:
    """A process in a session of its own, so that Ctrl-C reaches the parent alone, which then tells it."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "harness.drive.workers.process",
            str(theirs.fileno()),
            pass_fds=(theirs.fileno(),),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    return _Worker(index, process, await Channel.over(ours))
