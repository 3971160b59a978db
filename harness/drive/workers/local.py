"""Sending processes on this machine."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from harness.clock import Clock
from harness.drive.workers.link import CANCEL_S, Link
from harness.drive.workers.messages import Channel


@asynccontextmanager
async def local_links(count: int, clock: Clock) -> AsyncIterator[Sequence[Link]]:
    """`count` processes, ended with the context."""
    links: list[Link] = []
    try:
        for index in range(count):
            links.append(await _spawn(index, clock))
        yield links
    finally:
        await asyncio.gather(*(each.stop() for each in links))


async def _spawn(index: int, clock: Clock) -> Link:
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

    async def why_ended() -> str:
        return f"exit code {await process.wait()}"

    async def stop() -> None:
        try:
            await asyncio.wait_for(process.wait(), CANCEL_S)
        except TimeoutError:
            process.kill()
            await process.wait()

    channel = await Channel.over(ours)
    return Link(f"worker process {index}", channel, clock, shares_clock=True, why_ended=why_ended, stop=stop)
