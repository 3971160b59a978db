"""An event loop whose time jumps to the next timer instead of waiting, and the clock that goes with it."""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

NS_PER_S = 1_000_000_000
START_NS = 1_000 * NS_PER_S


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits: with nothing ready, time moves to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = START_NS

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is not None:
            self.now_ns += math.ceil(timeout * NS_PER_S)
            return []
        raise RuntimeError("nothing is scheduled: the code under test waits for ever")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """asyncio with virtual time; what goes to a worker thread is done at once and takes none."""

    def __init__(self) -> None:
        self.selector = _JumpingSelector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now_ns / NS_PER_S

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class VirtualClock:
    """A `harness.clock.Clock` on a `VirtualTimeLoop`."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop

    def now_ns(self) -> int:
        return self._loop.selector.now_ns

    def utc_now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now_ns() / NS_PER_S)

    async def sleep_until(self, when_ns: int) -> None:
        delay_ns = when_ns - self.now_ns()
        if delay_ns > 0:
            await asyncio.sleep(delay_ns / NS_PER_S)


def run_virtual(main: Callable[[VirtualClock], Coroutine[Any, Any, T]]) -> T:
    """Run `main` to its end in virtual time."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(main(VirtualClock(loop)))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
