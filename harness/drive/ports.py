"""What a cell needs of the world: a client that sends, and a history that keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from harness.drive.health import MeterReading
from harness.endpoint.encode import EncodedRequest
from harness.endpoint.raw import RawAnswer
from harness.endpoint.target import Target
from harness.records import CellInfo, Complete, CounterSample, Invoke

KeepPrompt = Callable[[str, bytes], None]


class Sender(Protocol):
    """The part of `endpoint.client.Client` that a cell uses."""

    @property
    def target(self) -> Target:
        """Whom it talks to."""
        ...

    async def open_connections(self, count: int) -> int:
        """Have `count` connections in the pool; returns how many there are."""
        ...

    async def send(self, request: EncodedRequest, *, on_cancel: Callable[[RawAnswer], None] | None = None) -> RawAnswer:
        """Send and wait for the whole answer; a cancelled task's partial answer goes to `on_cancel`."""
        ...

    async def get_text(self, path: str) -> str:
        """The body of a GET; EndpointError on any trouble."""
        ...

    async def post_text(self, path: str) -> str:
        """The body of the answer to an empty POST; EndpointError on any trouble."""
        ...


@runtime_checkable
class Workforce(Protocol):
    """What a sender of several processes can do besides: its processes measure themselves, and may end early."""

    @property
    def troubles(self) -> Sequence[str]:
        """What became of processes that ended early."""
        ...

    @property
    def clock_error_ms(self) -> float | None:
        """How far off times of other machines may be at most; None if all run on this one."""
        ...

    async def start_meters(self) -> None: ...

    async def stop_meters(self) -> Sequence[MeterReading]:
        """A reading of each process that still lives."""
        ...


@runtime_checkable
class Receiver(Protocol):
    """A sender with sockets of its own."""

    def unread_bytes(self) -> int:
        """What has arrived for the requests in flight and has not been read."""
        ...


class History(Protocol):
    """The part of `store.CellWriter` that a cell uses; only `finish` and `close` wait for the disk."""

    def next_request_id(self) -> str: ...

    def invoke(self, invoke: Invoke) -> None: ...

    def complete(
        self,
        complete: Complete,
        event_times_ns: Sequence[int] | npt.NDArray[np.int64] | None = None,
        raw: bytes | None = None,
    ) -> None: ...

    def counters(self, sample: CounterSample) -> None: ...

    def finish(self, info: CellInfo) -> None: ...

    def close(self) -> None: ...
