"""What the harness measures of itself: how late its timers fire, what CPU it takes, what waits unread."""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from harness.clock import NS_PER_MS, Clock

LAG_INTERVAL_NS = 10 * NS_PER_MS
# A look at every socket costs about a microsecond each.
LOOKS_PER_BACKLOG = 25
# A request leaves about 20 objects more than it frees: so all of them are gone through every 50,000 requests, with
# Python's own thresholds every 3,500, which took a tenth of the CPU of short requests and stopped the loop each time.
GC_THRESHOLDS = (10_000, 20, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterReading:
    """What one process measured of itself; None where it has no sample.

    lag_*_ms: how late a periodic timer fired. cpu_share: CPU seconds of the process per second. gc_share, gc_max_ms:
    share of the time spent collecting garbage, and the longest pause. backlog_*_bytes: what had arrived at all sockets
    together and was not read, a few times a second.
    """

    lag_p50_ms: float | None
    lag_p99_ms: float | None
    lag_max_ms: float | None
    cpu_share: float | None
    gc_share: float | None = None
    gc_max_ms: float | None = None
    backlog_p99_bytes: float | None = None
    backlog_max_bytes: int | None = None


class PauseMeter:
    """Times the garbage collector's pauses from `start` to `stop`."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._began_ns: int | None = None
        self.total_ns = self.longest_ns = 0

    def start(self) -> None:
        """Begin, forgetting what was before."""
        self.stop()
        self._began_ns = None
        self.total_ns = self.longest_ns = 0
        gc.callbacks.append(self._noted)

    def stop(self) -> None:
        """Measure no more; what was measured stays."""
        if self._noted in gc.callbacks:
            gc.callbacks.remove(self._noted)

    def _noted(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_ns = self._now_ns()
        elif self._began_ns is not None:
            pause_ns = self._now_ns() - self._began_ns
            self.total_ns += pause_ns
            self.longest_ns = max(self.longest_ns, pause_ns)


class SelfMeter:
    """Samples from `start` to `stop`; `watch` is a task that ends only by cancellation.

    unread_bytes: what waits at the sockets at this moment; None if this process has none to look at.
    """

    def __init__(
        self,
        clock: Clock,
        cpu_time_ns: Callable[[], int] = time.process_time_ns,
        unread_bytes: Callable[[], int] | None = None,
    ) -> None:
        self._clock = clock
        self._cpu_time_ns = cpu_time_ns
        self._unread_bytes = unread_bytes
        self._pauses = PauseMeter(clock.now_ns)
        self._backlog_bytes = array("q")
        self._late_ns = array("q")
        self._from: tuple[int, int] | None = None
        self._to: tuple[int, int] | None = None

    def start(self) -> None:
        """Begin measuring, forgetting what was before."""
        self._late_ns = array("q")
        self._backlog_bytes = array("q")
        self._pauses.start()
        self._from = (self._clock.now_ns(), self._cpu_time_ns())

    def stop(self) -> None:
        """End measuring."""
        self._to = (self._clock.now_ns(), self._cpu_time_ns())
        self._pauses.stop()

    async def watch(self) -> None:
        """Fire a timer every 10 ms and note how late it was; every so often look at the sockets."""
        try:
            while True:
                due_ns = self._clock.now_ns() + LAG_INTERVAL_NS
                await self._clock.sleep_until(due_ns)
                self._late_ns.append(self._clock.now_ns() - due_ns)
                if self._unread_bytes is not None and len(self._late_ns) % LOOKS_PER_BACKLOG == 0:
                    self._backlog_bytes.append(self._unread_bytes())
        finally:
            self._pauses.stop()

    @property
    def lag_ms(self) -> tuple[float | None, float | None, float | None]:
        """p50, p99 and maximum of the lag; None without a sample."""
        p50, p99 = percentiles_ms(self._late_ns, (50, 99))
        return p50, p99, max(self._late_ns) / NS_PER_MS if self._late_ns else None

    @property
    def cpu_share(self) -> float | None:
        """CPU seconds of this process per second; None if nothing was measured."""
        if self._from is None or self._to is None or self._to[0] == self._from[0]:
            return None
        return (self._to[1] - self._from[1]) / (self._to[0] - self._from[0])

    @property
    def reading(self) -> MeterReading:
        """Everything measured, as data."""
        p50, p99, longest = self.lag_ms
        backlog = self._backlog_bytes
        return MeterReading(
            lag_p50_ms=p50,
            lag_p99_ms=p99,
            lag_max_ms=longest,
            cpu_share=self.cpu_share,
            gc_share=self.gc_share,
            gc_max_ms=None if self._from is None else self._pauses.longest_ns / NS_PER_MS,
            backlog_p99_bytes=float(np.percentile(backlog, 99)) if backlog else None,
            backlog_max_bytes=max(backlog, default=None),
        )

    @property
    def gc_share(self) -> float | None:
        """Share of the time that went into collecting garbage; None if nothing was measured."""
        if self._from is None or self._to is None or self._to[0] == self._from[0]:
            return None
        return self._pauses.total_ns / (self._to[0] - self._from[0])


def percentiles_ms(values_ns: Sequence[int], percents: Sequence[float]) -> list[float | None]:
    """Percentiles in milliseconds, interpolated linearly; None each when there are no values."""
    if not len(values_ns):
        return [None] * len(percents)
    return [float(value) / NS_PER_MS for value in np.percentile(np.asarray(values_ns, dtype=np.int64), percents)]


@contextmanager
def frozen_garbage() -> Iterator[None]:
    """During a cell collect garbage seldom, and keep what exists now out of the collector's sight."""
    before = gc.get_threshold()
    freeze_garbage()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def freeze_garbage() -> None:
    """As `frozen_garbage`, for a process that does nothing else."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
