"""A sender whose requests are carried by several processes.

The plan, the levels and the history stay in one place, so results do not depend on how many processes there are; what
is spread over them is what costs: the sockets and every arriving byte. Processes of this machine read the same
monotonic clock; those of other machines are compared with it, see `Link`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from harness.clock import NS_PER_MS, Clock
from harness.drive.health import MeterReading
from harness.drive.workers.link import SAME_CLOCK, Link, WorkersDied
from harness.endpoint.client import Client
from harness.endpoint.encode import EncodedRequest
from harness.endpoint.raw import RawAnswer
from harness.endpoint.target import Target
from harness.records import ErrorKind, RequestError


class WorkerPool:
    """Sends by the least busy living worker; the few requests that are not measured go the parent's own way."""

    def __init__(self, client: Client, clock: Clock, workers: Sequence[Link]) -> None:
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

    @property
    def clock_error_ms(self) -> float | None:
        """How far off times of other machines may be at most; None if all run on this one."""
        errors = [each.offset.error_ns for each in self._workers if each.offset is not SAME_CLOCK]
        return max(errors) / NS_PER_MS if errors else None

    def _alive(self) -> list[Link]:
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
async def worker_pool(
    client: Client, clock: Clock, links: AbstractAsyncContextManager[Sequence[Link]]
) -> AsyncIterator[WorkerPool]:
    """A pool of processes that `links` starts and ends.

    Raises:
        WorkersDied: one of them did not start.
    """
    async with links as started:
        await asyncio.gather(*(each.greet(client.target) for each in started))
        yield WorkerPool(client, clock, started)
