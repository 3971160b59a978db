"""Sending processes on the nodes of a Ray cluster.

Ray places them and tells when one dies; requests and answers go over a connection of our own, which each process opens
to the parent, so that a request does not pay for a remote call. The cluster's network is trusted, as Ray trusts it: the
first bytes of a connection prove that it comes from a process started here, and nothing is encrypted.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, redirect_stdout
from typing import Any

from harness.clock import Clock
from harness.drive.workers.link import CANCEL_S, Link, WorkersDied
from harness.drive.workers.messages import Channel

TOKEN_BYTES = 32
INDEX_BYTES = 4
JOIN_S = 120.0
REACH_S = 10.0
HOW_TO_INSTALL = "Ray is not installed; it comes with: pip install 'ling-bench[ray]'"


@asynccontextmanager
async def ray_links(count: int, address: str | None, clock: Clock) -> AsyncIterator[Sequence[Link]]:
    """`count` processes spread over the nodes of the cluster at `address` (None: the one found, or one started here).

    Raises:
        WorkersDied: Ray is not installed, the cluster cannot be reached or has no room for so many processes.
    """
    try:
        import ray
    except ImportError:
        raise WorkersDied(HOW_TO_INSTALL) from None
    with redirect_stdout(sys.stderr):  # Ray prints what becomes of nodes; stdout is for results.
        async with _cluster(ray, count, address, clock) as links:
            yield links


@asynccontextmanager
async def _cluster(ray: Any, count: int, address: str | None, clock: Clock) -> AsyncIterator[Sequence[Link]]:
    await asyncio.to_thread(_connect, ray, address)
    gate = _Gate(clock)
    links: list[Link] = []
    try:
        await gate.open(ray.util.get_node_ip_address())
        actors = [_start(ray, gate, index) for index in range(count)]
        links += await gate.joined(ray, actors)
        yield links
    finally:
        await asyncio.gather(*(each.stop() for each in links))
        gate.close()
        await asyncio.to_thread(ray.shutdown)


def _connect(ray: Any, address: str | None) -> None:
    if address is not None and ":" in address:
        _reach(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        where = "a local cluster" if address is None else f"the cluster at {address}"
        raise WorkersDied(f"Ray: {where} cannot be used: {str(error).splitlines()[0]}") from None


def _reach(address: str) -> None:
    """Ray itself goes on trying for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=REACH_S).close()
    except (OSError, ValueError) as error:
        raise WorkersDied(f"Ray: the cluster at {address} cannot be used: {error}") from None


def _start(ray: Any, gate: _Gate, index: int) -> Any:
    """The reference of a call that ends when the process does."""
    sender = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")(_send_until_told)
    return sender.remote(gate.host, gate.port, gate.token, index)


def _send_until_told(host: str, port: int, token: bytes, index: int) -> None:
    """What runs on a node: a worker like any other, behind a connection to the parent."""
    from harness.drive.workers.process import serve_over

    end = socket.create_connection((host, port), timeout=JOIN_S)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    end.settimeout(None)
    name = socket.gethostname().encode()[:255]
    end.sendall(token + index.to_bytes(INDEX_BYTES, "big") + len(name).to_bytes(1, "big") + name)
    serve_over(end)


class _Gate:
    """Where the processes of a cluster report for work."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.token = secrets.token_bytes(TOKEN_BYTES)
        self.host, self.port = "", 0
        self._server: asyncio.Server | None = None
        self._arrived: asyncio.Queue[tuple[int, str, Channel]] = asyncio.Queue()

    async def open(self, host: str) -> None:
        """Listen at an address of this machine that the nodes can reach."""
        self._server = await asyncio.start_server(self._admit, host, 0, limit=1 << 20)
        self.host, self.port = self._server.sockets[0].getsockname()[:2]

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let in whoever knows the token; nothing is unpickled before that."""
        channel = Channel(reader, writer)
        try:
            token = await channel.receive_exactly(TOKEN_BYTES)
            if not hmac.compare_digest(token, self.token):
                channel.close()
                return
            index = int.from_bytes(await channel.receive_exactly(INDEX_BYTES), "big")
            length = (await channel.receive_exactly(1))[0]
            name = (await channel.receive_exactly(length)).decode(errors="replace")
        except EOFError:
            return
        await self._arrived.put((index, name, channel))

    async def joined(self, ray: Any, calls: Sequence[Any]) -> list[Link]:
        """A link to each process, once all have reported."""
        links: list[Link] = []
        try:
            async with asyncio.timeout(JOIN_S):
                while len(links) < len(calls):
                    index, name, channel = await self._arrived.get()
                    links.append(_link(ray, calls[index], f"Ray worker {index} on {name}", channel, self._clock))
        except TimeoutError:
            for each in links:
                await each.stop()
            raise WorkersDied(
                f"Ray: only {len(links)} of {len(calls)} processes started within {JOIN_S:g} s; "
                "each needs one free CPU of the cluster and ling-bench installed there"
            ) from None
        return links

    def close(self) -> None:
        """Nobody is let in any more."""
        if self._server is not None:
            self._server.close()


def _link(ray: Any, call: Any, name: str, channel: Channel, clock: Clock) -> Link:
    async def why_ended() -> str:
        try:
            await asyncio.wait_for(asyncio.wrap_future(call.future()), CANCEL_S)
        except TimeoutError:
            return "its connection was lost"
        except ray.exceptions.RayError as error:
            return type(error).__name__
        return "its connection was closed"

    async def stop() -> None:
        ray.cancel(call, force=True)

    return Link(name, channel, clock, shares_clock=False, why_ended=why_ended, stop=stop)
