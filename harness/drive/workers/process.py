"""`python -m harness.drive.workers.process FD`: sends what the parent orders, and measures itself meanwhile."""

from __future__ import annotations

import asyncio
import socket
import sys
from functools import partial

import uvloop

from harness.clock import MonotonicClock
from harness.drive.health import SelfMeter, freeze_garbage
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
from harness.endpoint.client import Client
from harness.endpoint.encode import EncodedRequest
from harness.endpoint.raw import RawAnswer

CLOCK = MonotonicClock()


class Worker:
    """Carries out one order after another; a request is a task of its own."""

    def __init__(self, client: Client, channel: Channel) -> None:
        self._client = client
        self._channel = channel
        self._meter = SelfMeter(CLOCK, unread_bytes=client.unread_bytes)
        self._requests: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Until the parent closes the channel."""
        watch = asyncio.create_task(self._meter.watch())
        try:
            while True:
                order = await self._channel.receive()
                await self._carry_out(order)  # type: ignore[arg-type]
        except EOFError:
            return
        finally:
            for task in (watch, *self._requests.values()):
                task.cancel()

    async def _carry_out(self, order: Order) -> None:
        match order:
            case Send(number=number, request=request):
                task = asyncio.create_task(self._send(number, request))
                self._requests[number] = task
                task.add_done_callback(lambda _: self._requests.pop(number, None))
            case Cancel(number=number):
                if number in self._requests:
                    self._requests[number].cancel()
            case Open(number=number, count=count):
                self._reply(number, await self._client.open_connections(count))
            case StartMeter(number=number):
                freeze_garbage()
                self._meter.start()
                self._reply(number, None)
            case Clock(number=number):
                self._reply(number, CLOCK.now_ns())
            case StopMeter(number=number):
                self._meter.stop()
                self._reply(number, self._meter.reading)

    async def _send(self, number: int, request: EncodedRequest) -> None:
        """One request to its end; a cancelled one gives what came so far."""
        reply = partial(self._reply, number)
        reply(await self._client.send(request, on_cancel=reply))

    def _reply(self, number: int, value: RawAnswer | object) -> None:
        self._channel.send(Reply(number=number, value=value))


def serve_over(end: socket.socket) -> None:
    """Work for whoever is at the other end, until it is closed."""
    uvloop.run(_serve(end))


async def _serve(end: socket.socket) -> None:
    channel = await Channel.over(end)
    hello = await channel.receive()
    if not isinstance(hello, Hello):
        raise TypeError(f"the first message must be a Hello, not {type(hello).__name__}")
    async with Client(hello.target(), CLOCK) as client:
        channel.send(Reply(number=0, value=None))
        await Worker(client, channel).run()
    channel.close()


if __name__ == "__main__":
    serve_over(socket.socket(fileno=int(sys.argv[1])))
