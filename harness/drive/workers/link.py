"""The parent's side of one sending process, on this machine or another."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from harness.clock import Clock as TimeSource
from harness.drive.health import MeterReading
from harness.drive.workers.messages import (
    Cancel,
    Channel,
    Clock,
    Hello,
    Open,
    Order,
    Reply,
    Send,
    StartMeter,
    StopMeter,
)
from harness.endpoint.encode import EncodedRequest
from harness.endpoint.raw import RawAnswer
from harness.endpoint.target import Target

START_S = 30.0
CANCEL_S = 5.0
# A process that has not said its time for so long is taken for gone: a machine that lost its power closes nothing.
SILENCE_S = 15.0
CLOCK_EVERY_S = 5.0
PINGS = 16
T = TypeVar("T")


class WorkersDied(Exception):
    """A worker process did not start, or ended while something other than a request was asked of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """What another clock shows more than ours, and how far off that may be: half the shortest round trip."""

    offset_ns: int = 0
    error_ns: int = 0


SAME_CLOCK = Offset()


class Link:
    """One process that sends for us.

    name: what the user is told it is called. shares_clock: it runs on this machine, so that its times are ours.
    why_ended: waits for its end and says how it ended. stop: makes it end.
    """

    def __init__(
        self,
        name: str,
        channel: Channel,
        clock: TimeSource,
        *,
        shares_clock: bool,
        why_ended: Callable[[], Awaitable[str]],
        stop: Callable[[], Awaitable[None]],
    ) -> None:
        self.name = name
        self._channel = channel
        self._clock = clock
        self._shares_clock = shares_clock
        self._why_ended = why_ended
        self._stop = stop
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[object]] = {}
        self.sending = 0
        self.trouble: str | None = None
        self.offset = SAME_CLOCK
        self._tasks = [asyncio.create_task(self._listen())]

    async def greet(self, target: Target) -> None:
        """Tell it whom to ask and wait until it can; from then on the clocks are compared."""
        ready = self._await_reply(0)
        self._channel.send(Hello.of(target))
        try:
            await asyncio.wait_for(ready, START_S)
        except TimeoutError:
            raise WorkersDied(f"{self.name} was not ready within {START_S:g} s") from None
        if not self._shares_clock:
            self.offset = await self._compare_clocks()
            self._tasks.append(asyncio.create_task(self._keep_comparing()))

    async def _listen(self) -> None:
        try:
            while True:
                reply = await self._channel.receive()
                if isinstance(reply, Reply) and (future := self._pending.pop(reply.number, None)) is not None:
                    future.set_result(reply.value)
        except EOFError:
            self._lose(f"{self.name} ended early ({await self._why_ended()})")

    def _lose(self, trouble: str) -> None:
        self.trouble = trouble
        for future in self._pending.values():
            if not future.done():
                future.set_exception(WorkersDied(trouble))
                future.exception()  # Looked at: a request that was cut off no longer waits for it.
        self._pending.clear()

    async def _compare_clocks(self) -> Offset:
        """The offset by the quickest of a few round trips (Cristian, 1989)."""
        found = []
        for _ in range(PINGS):
            before_ns = self._clock.now_ns()
            theirs_ns = await self._ask(lambda number: Clock(number=number), int)
            after_ns = self._clock.now_ns()
            half_ns = (after_ns - before_ns) // 2
            found.append(Offset(offset_ns=theirs_ns - before_ns - half_ns, error_ns=half_ns))
        return min(found, key=lambda each: each.error_ns)

    async def _keep_comparing(self) -> None:
        """Clocks drift apart, and a silent process may be gone."""
        while True:
            await asyncio.sleep(CLOCK_EVERY_S)
            try:
                self.offset = await asyncio.wait_for(self._compare_clocks(), SILENCE_S)
            except TimeoutError:
                self._lose(f"{self.name} has been silent for {SILENCE_S:g} s")
            except WorkersDied:
                return

    def _await_reply(self, number: int) -> asyncio.Future[object]:
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        if self.trouble is not None:
            future.set_exception(WorkersDied(self.trouble))
        else:
            self._pending[number] = future
        return future

    async def _ask(self, order: Callable[[int], Order], kind: type[T]) -> T:
        """The reply to one order. Raises WorkersDied if none will come."""
        number = next(self._numbers)
        reply = self._await_reply(number)
        self._channel.send(order(number))
        value = await reply
        assert isinstance(value, kind)
        return value

    async def open_connections(self, count: int) -> int:
        """As `Client.open_connections`."""
        return await self._ask(lambda number: Open(number=number, count=count), int)

    async def start_meter(self) -> None:
        """It measures itself from here on."""
        await self._ask(lambda number: StartMeter(number=number), object)

    async def stop_meter(self) -> MeterReading:
        """What it measured."""
        return await self._ask(lambda number: StopMeter(number=number), MeterReading)

    async def send(self, request: EncodedRequest, on_cancel: Callable[[RawAnswer], None] | None) -> RawAnswer:
        """As `Client.send`, with times of our clock; WorkersDied if the process ends before the answer does."""
        number = next(self._numbers)
        reply = self._await_reply(number)
        self._channel.send(Send(number=number, request=replace(request, prompt=b"", parameters={})))
        self.sending += 1
        try:
            answer = await asyncio.shield(reply)
        except asyncio.CancelledError:
            self._channel.send(Cancel(number=number))
            if on_cancel is not None and (partial := await _within(reply, CANCEL_S)) is not None:
                on_cancel(self._ours(partial))
            raise
        finally:
            self.sending -= 1
        assert isinstance(answer, RawAnswer)
        return self._ours(answer)

    def _ours(self, answer: RawAnswer) -> RawAnswer:
        """The answer under the name of its process, with its times as our clock would have shown them."""
        ahead_ns = self.offset.offset_ns
        if not ahead_ns:
            return replace(answer, process=self.name)
        return replace(
            answer,
            process=self.name,
            sent_ns=None if answer.sent_ns is None else answer.sent_ns - ahead_ns,
            arrivals_ns=tuple(at_ns - ahead_ns for at_ns in answer.arrivals_ns),
            end_ns=answer.end_ns - ahead_ns,
        )

    async def stop(self) -> None:
        """Close the channel, at which the process ends."""
        for task in self._tasks:
            task.cancel()
        self._channel.close()
        await self._stop()


async def _within(reply: asyncio.Future[object], seconds: float) -> RawAnswer | None:
    """The answer if it comes in time; None if it does not or the process is gone."""
    try:
        answer = await asyncio.wait_for(asyncio.shield(reply), seconds)
    except (TimeoutError, WorkersDied):
        return None
    return answer if isinstance(answer, RawAnswer) else None
