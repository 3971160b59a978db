"""The closed loop: asks a generator what to do, keeps at most so many requests in flight, tells it what came."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Generic

from harness.clock import NS_PER_S, Clock
from harness.drive.asker import Answered, Asker
from harness.drive.flusher import Flusher
from harness.drive.ports import History
from harness.drive.reader import Reader, observed
from harness.drive.scraper import Scraper
from harness.drive.spec import CellSpec
from harness.records import Invoke
from workloads.plan import Ask, Done, Flush, Generator, Marker, Observation, Phase, Scrape, Sleep, State, Step, Wait

BACKLOG_PER_SLOT = 4


class Stop(StrEnum):
    """The limit of its spec that ended a cell before its plan did."""

    DURATION = "duration"
    REQUESTS = "requests"
    TOKENS = "tokens"


class Conductor(Generic[State]):
    """Runs one generator to its end, or to the cell's.

    Any step but a request is carried out before the generator is asked again; answers that come meanwhile wait.
    origin_ns: the start of the cell, from which the generator counts. before_measuring: called once, before the first
    measured request. stopped: None if the plan came to its own end. cut_off: requests still in flight after the drain.
    """

    def __init__(
        self,
        *,
        spec: CellSpec,
        generator: Generator[State],
        asker: Asker,
        reader: Reader,
        scraper: Scraper,
        flusher: Flusher,
        history: History,
        clock: Clock,
        origin_ns: int,
        before_measuring: Callable[[], Awaitable[None]],
    ) -> None:
        self._spec = spec
        self._generator = generator
        self._state = generator.start()
        self._asker = asker
        self._reader = reader
        self._scraper = scraper
        self._flusher = flusher
        self._history = history
        self._clock = clock
        self._origin_ns = origin_ns
        self._before_measuring = before_measuring
        self._observations: deque[Observation] = deque()
        self._in_flight: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._idle = False
        self._idle_until_ns: int | None = None
        self._phase = Phase.WARMUP
        self._measure_start_ns = origin_ns
        self._deadline_ns: int | None = None
        self._measured = 0
        self.stopped: Stop | None = None
        self.cut_off = 0

    async def run(self, group: asyncio.TaskGroup) -> None:
        """Carry out the plan with a task of `group` for each request; on return nothing is in flight."""
        while self.stopped is None:
            step = self._next_step()
            if isinstance(step, Done):
                break
            if isinstance(step, Wait):
                self._idle, self._idle_until_ns = True, self._from_origin(step.until_ns)
            elif isinstance(step, Ask):
                await self._start(step, group)
            elif step is not None:
                await self._carry_out(step)
            else:
                await self._pause()
        await self._drain()

    def _next_step(self) -> Step | Wait | Done | None:
        """What the generator wants; None if it cannot be asked now."""
        if self._observations:
            self._idle = False
            return self._asked(self._observations.popleft())
        if self._idle and self._idle_until_ns is not None and self._clock.now_ns() >= self._idle_until_ns:
            self._idle = False
        if self._idle or len(self._in_flight) >= self._spec.concurrency:
            return None
        return self._asked(None)

    def _asked(self, observation: Observation | None) -> Step | Wait | Done:
        now_ns = self._clock.now_ns() - self._origin_ns
        self._state, step = self._generator.next(self._state, observation, now_ns)
        return step

    def _from_origin(self, offset_ns: int | None) -> int | None:
        return None if offset_ns is None else self._origin_ns + offset_ns

    async def _pause(self) -> None:
        """Until an answer comes, the time of a wait comes, or the cell's time is over."""
        waits = self._idle and self._idle_until_ns is not None and len(self._in_flight) < self._spec.concurrency
        bounds = [bound for bound in (self._deadline_ns, self._idle_until_ns if waits else None) if bound is not None]
        if not bounds and not self._in_flight:
            raise RuntimeError(f"{self._generator.name}: the plan waits for an answer while nothing is in flight")
        await self._wait_until(min(bounds, default=None))
        if self._deadline_ns is not None and self._clock.now_ns() >= self._deadline_ns:
            self.stopped = Stop.DURATION

    async def _wait_until(self, bound_ns: int | None) -> None:
        self._wake.clear()
        patience_s = None if bound_ns is None else max(0, bound_ns - self._clock.now_ns()) / NS_PER_S
        try:
            async with asyncio.timeout(patience_s):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _start(self, ask: Ask, group: asyncio.TaskGroup) -> None:
        if ask.phase is Phase.MEASURE and self._phase is Phase.WARMUP:
            await self._begin_measuring()
        planned_ns = self._planned_ns(ask)
        self.stopped = self._reason_to_stop(ask, planned_ns)
        if self.stopped is not None:
            return
        released_ns = max(planned_ns, self._clock.now_ns())
        task = group.create_task(self._asker.ask(ask, planned_ns, self._ended, released_ns))
        self._measured += ask.phase is Phase.MEASURE
        self._in_flight.add(task)
        task.add_done_callback(self._landed)

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._wake.set()

    async def _begin_measuring(self) -> None:
        await self._before_measuring()
        self._phase = Phase.MEASURE
        self._measure_start_ns = self._clock.now_ns()
        if self._spec.duration_ns is not None:
            self._deadline_ns = self._measure_start_ns + self._spec.duration_ns

    def _reason_to_stop(self, ask: Ask, planned_ns: int) -> Stop | None:
        """Why the cell has to end instead of sending this request."""
        if self._deadline_ns is not None and planned_ns >= self._deadline_ns:
            return Stop.DURATION
        if ask.phase is Phase.MEASURE and self._measured == self._spec.max_requests:
            return Stop.REQUESTS
        return None if self._reader.budget.book(ask) else Stop.TOKENS

    def _planned_ns(self, ask: Ask) -> int:
        """When a request is due: as planned or now, and the first measured ones spread over the start of the cell."""
        planned_ns = self._clock.now_ns()
        if ask.planned_ns is not None:
            planned_ns = self._origin_ns + ask.planned_ns
        if ask.phase is Phase.MEASURE and self._measured < self._spec.concurrency:
            slot_ns = self._measured * self._spec.spread_ns // self._spec.concurrency
            planned_ns = max(planned_ns, self._measure_start_ns + slot_ns)
        return planned_ns

    def _ended(self, answered: Answered) -> None:
        """Have an answer read, at once only if the generator reacts to it or too many wait."""
        key = answered.ask.key
        if self._generator.reacts or self._reader.backlog >= BACKLOG_PER_SLOT * self._spec.concurrency:
            self._observations.append(self._reader.observe(answered))
        else:
            self._reader.put(answered)
            self._observations.append(Observation(key=key, outcome="unread"))

    async def _carry_out(self, step: Sleep | Scrape | Marker | Flush) -> None:
        request_id = self._history.next_request_id()
        self._history.invoke(
            Invoke(
                request_id=request_id,
                cell=self._spec.cell,
                step=type(step).__name__.lower(),
                key=step.key,
                planned_ns=self._clock.now_ns(),
                phase=self._phase,
                note=step.text if isinstance(step, Marker) else None,
                parameters={"duration_ns": step.duration_ns} if isinstance(step, Sleep) else {},
            )
        )
        if isinstance(step, Sleep):
            await self._clock.sleep_until(self._clock.now_ns() + step.duration_ns)
        elif isinstance(step, Scrape):
            await self._scraper.sample()
        elif isinstance(step, Flush):
            flushed = await self._flusher.flush(request_id)
            self._history.complete(flushed)
            self._observations.append(observed(step.key, flushed))

    async def _drain(self) -> None:
        """Let what is in flight end; after a duration only for so long, then it is cut off."""
        if not self._in_flight:
            return
        patience_s = None if self._deadline_ns is None else self._spec.drain_ns / NS_PER_S
        _, late = await asyncio.wait(self._in_flight, timeout=patience_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        self.cut_off = len(late)
