from __future__ import annotations

import asyncio
import socket

from harness.clock import MonotonicClock
from harness.endpoint.exchange import Exchange
from harness.endpoint.target import Timeouts
from harness.endpoint.watch import Watch


def test_unread_bytes_are_those_at_the_sockets_of_requests_in_flight() -> None:
    async def run() -> list[int]:
        watch = Watch(MonotonicClock(), Timeouts())
        ours, theirs = socket.socketpair()
        exchange, unsent = Exchange(), Exchange()
        with ours, theirs:
            exchange.socket = ours.fileno()
            theirs.send(b"1234567")
            found = [watch.unread_bytes()]
            async with watch.over(exchange), watch.over(unsent):
                found.append(watch.unread_bytes())
                ours.recv(5)
                found.append(watch.unread_bytes())
            found.append(watch.unread_bytes())
        async with watch.over(exchange):  # Its socket is closed.
            found.append(watch.unread_bytes())
        return found

    assert asyncio.run(run()) == [0, 7, 2, 0, 0]
