"""Bounds on every wait for an answer, without a timer per token."""

from __future__ import annotations

import asyncio
import struct
import termios
from fcntl import ioctl
from types import TracebackType
from typing import Self

from harness.clock import NS_PER_S, Clock
from harness.endpoint.exchange import Exchange
from harness.endpoint.target import Timeouts
from harness.records import ErrorKind, RequestError

_SLOWEST_TICK_S = 0.25
_TICKS_PER_TIMEOUT = 10
_COUNT = struct.Struct("i")


class Watch:
    """Looks at all exchanges in flight a few times a second and ends those that waited too long."""

    def __init__(self, clock: Clock, timeouts: Timeouts) -> None:
        self._clock = clock
        self._timeouts = timeouts
        shortest_s = min(timeouts.first_byte_s, timeouts.stall_s, timeouts.total_s)
        self._tick_s = min(_SLOWEST_TICK_S, shortest_s / _TICKS_PER_TIMEOUT)
        self._open: set[Watched] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look; needs a running loop."""
        self._task = asyncio.create_task(self._run(), name="endpoint watch")

    async def stop(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def over(self, exchange: Exchange) -> Watched:
        """A context in which `exchange` is watched; its `error` tells whether the watch ended it."""
        return Watched(self._open, exchange, self._clock.now_ns())

    def unread_bytes(self) -> int:
        """What has arrived at the sockets of all exchanges in flight and has not been read."""
        return sum(_unread_bytes(each.exchange.socket) for each in self._open)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._tick_s)
            now_ns = self._clock.now_ns()
            for watched in tuple(self._open):
                if (error := self._overdue(watched, now_ns)) is not None:
                    watched.end(error)

    def _overdue(self, watched: Watched, now_ns: int) -> RequestError | None:
        exchange, times = watched.exchange, self._timeouts
        if now_ns - watched.started_ns > times.total_s * NS_PER_S:
            return RequestError(kind=ErrorKind.TOTAL_TIMEOUT, message=f"not finished within {times.total_s:g} s")
        if exchange.arrivals_ns:
            if now_ns - exchange.arrivals_ns[-1] > times.stall_s * NS_PER_S:
                return RequestError(kind=ErrorKind.STALL_TIMEOUT, message=f"no byte for {times.stall_s:g} s")
        elif exchange.sent_ns is not None and now_ns - exchange.sent_ns > times.first_byte_s * NS_PER_S:
            message = f"no byte of the answer within {times.first_byte_s:g} s"
            return RequestError(kind=ErrorKind.FIRST_BYTE_TIMEOUT, message=message)
        return None


def _unread_bytes(socket: int | None) -> int:
    """0 for a socket that is not there yet or no longer."""
    if socket is None or socket < 0:
        return 0
    try:
        (count,) = _COUNT.unpack(ioctl(socket, termios.FIONREAD, bytes(_COUNT.size)))
    except OSError:
        return 0
    return int(count)


class Watched:
    """One exchange under watch; `error` is why the watch ended it, None if it did not."""

    def __init__(self, open_ones: set[Watched], exchange: Exchange, started_ns: int) -> None:
        self.exchange = exchange
        self.started_ns = started_ns
        self.error: RequestError | None = None
        self._open_ones = open_ones
        self._scope = asyncio.timeout(None)

    def end(self, error: RequestError) -> None:
        """End the wait with `error`."""
        self._open_ones.discard(self)
        self.error = error
        self._scope.reschedule(asyncio.get_running_loop().time())

    async def __aenter__(self) -> Self:
        await self._scope.__aenter__()
        self._open_ones.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._open_ones.discard(self)
        try:
            await self._scope.__aexit__(kind, error, trace)
        except TimeoutError:
            return True
        return False
