"""What the parent and a worker tell each other; the socket between them is theirs alone."""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from dataclasses import dataclass, replace
from typing import Self

from harness.endpoint.encode import EncodedRequest
from harness.endpoint.secret import Secret
from harness.endpoint.target import Target
from harness.endpoint.url import BaseUrl

_HEAD = struct.Struct("!Q")
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A target in the plain words that a pipe may carry; secrets go this way and never by a command line."""

    userinfo: str | None
    api_key: str | None
    headers: dict[str, str]
    rest: Target

    @classmethod
    def of(cls, target: Target) -> Self:
        """What a worker needs to know of `target`."""
        userinfo, key = target.base.userinfo, target.api_key
        return cls(
            userinfo=None if userinfo is None else userinfo.reveal(),
            api_key=None if key is None else key.reveal(),
            headers={name: value.reveal() for name, value in target.headers.items()},
            rest=replace(target, base=BaseUrl(root=target.base.root), api_key=None, headers={}),
        )

    def target(self) -> Target:
        """The target again."""
        return replace(
            self.rest,
            base=replace(self.rest.base, userinfo=None if self.userinfo is None else Secret(self.userinfo)),
            api_key=None if self.api_key is None else Secret(self.api_key),
            headers={name: Secret(value) for name, value in self.headers.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send a request; the reply is its RawAnswer."""

    number: int
    request: EncodedRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Give the request of that number up; its reply, what came so far, comes at once."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Have so many connections open; the reply is how many there are."""

    number: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartMeter:
    """Measure yourself from now on; the reply is None."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopMeter:
    """Stop measuring; the reply is a MeterReading."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Say what your monotonic clock shows; the reply is that, in nanoseconds."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer to the message of that number."""

    number: int
    value: object


Order = Send | Cancel | Open | StartMeter | StopMeter | Clock


class Channel:
    """Whole messages over a socket: a length of 8 bytes and a pickle each."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> Self:
        """A channel on a connected socket, of a pair or of TCP."""
        connect = asyncio.open_unix_connection if end.family == socket.AF_UNIX else asyncio.open_connection
        reader, writer = await connect(sock=end, limit=_READ_BYTES)
        return cls(reader, writer)

    async def receive(self) -> object:
        """The next message; EOFError when the other side is gone."""
        try:
            (length,) = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
            return pickle.loads(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise EOFError("the other process closed the channel") from None

    async def receive_exactly(self, length: int) -> bytes:
        """Bytes that stand before the first message; EOFError when the other side is gone."""
        try:
            return await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise EOFError("the other process closed the channel") from None

    def send_exactly(self, data: bytes) -> None:
        """Bytes that stand before the first message."""
        self._writer.write(data)

    def send(self, message: object) -> None:
        """Hand a message over; nothing is raised if the other side is gone, `receive` will say it."""
        data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
        if not self._writer.is_closing():
            self._writer.write(_HEAD.pack(len(data)) + data)

    def close(self) -> None:
        """Close this end."""
        self._writer.close()
