"""Time as a parameter: the one place that reads a clock."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


class Clock(Protocol):
    """Monotonic nanoseconds, the wall clock for labels only, and a way to wait."""

    def now_ns(self) -> int:
        """Monotonic nanoseconds; only differences mean anything."""
        ...

    def utc_now(self) -> datetime:
        """The wall clock, for names of folders and for people."""
        ...

    async def sleep_until(self, when_ns: int) -> None:
        """Return at `when_ns` or a little later; at once if it has passed."""
        ...


class MonotonicClock:
    """The machine's CLOCK_MONOTONIC, the same clock for every process of one machine."""

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def utc_now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep_until(self, when_ns: int) -> None:
        delay_ns = when_ns - self.now_ns()
        if delay_ns > 0:
            await asyncio.sleep(delay_ns / NS_PER_S)
