"""One cell from its first connection to its closing record."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Generic

from harness.clock import Clock
from harness.drive.asker import Asker
from harness.drive.budget import TokenBudget
from harness.drive.closing import Ended, closing_record
from harness.drive.conductor import Conductor
from harness.drive.flusher import Flusher
from harness.drive.health import MeterReading, SelfMeter, frozen_garbage
from harness.drive.ports import History, KeepPrompt, Receiver, Sender, Workforce
from harness.drive.progress import NO_PROGRESS, Progress
from harness.drive.reader import Reader
from harness.drive.scraper import Scraper
from harness.drive.spec import CellSpec
from harness.records import CellInfo
from workloads.plan import Generator, State
from workloads.text import CountTokens


async def run_cell(
    spec: CellSpec,
    generator: Generator[State],
    client: Sender,
    history: History,
    clock: Clock,
    progress: Progress = NO_PROGRESS,
    *,
    keep_prompt: KeepPrompt,
    count_tokens: CountTokens | None = None,
) -> CellInfo:
    """Run one cell, write its history and its closing record.

    If it is cancelled, every request in flight is recorded as UNKNOWN, the history is closed without a closing record,
    and the cancellation goes on; so does any other exception. `count_tokens` counts the output of servers that do not.
    """
    reader = Reader(spec, history, progress, TokenBudget(spec.max_tokens), count_tokens)
    cell = _Cell(spec, generator, client, history, clock, keep_prompt, reader)
    progress.cell_started(spec, _requests_to_come(spec, generator))
    try:
        with frozen_garbage():
            await cell.carry_out()
        info = cell.closing_record()
        history.finish(info)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from group
    finally:
        reader.read_all()
        history.close()
    progress.cell_finished(info)
    return info


def _requests_to_come(spec: CellSpec, generator: Generator[State]) -> int | None:
    """Measured requests of the cell if that is known: the spec's limit, or what the plan says of itself."""
    if spec.max_requests is not None:
        return spec.max_requests
    planned = generator.spec().get("requests")
    return planned if isinstance(planned, int) else None


class _Cell(Generic[State]):
    """The parts of one cell, put together."""

    def __init__(
        self,
        spec: CellSpec,
        generator: Generator[State],
        client: Sender,
        history: History,
        clock: Clock,
        keep_prompt: KeepPrompt,
        reader: Reader,
    ) -> None:
        self._spec = spec
        self._client = client
        self._reader = reader
        self._meter = SelfMeter(clock, unread_bytes=client.unread_bytes if isinstance(client, Receiver) else None)
        self._scraper = Scraper(client, history, clock, wanted=spec.scrape)
        self._started_utc = clock.utc_now().isoformat()
        self._origin_ns = clock.now_ns()
        self._connections: int | None = None
        self._readings: Sequence[MeterReading] = ()
        self._conductor = Conductor(
            spec=spec,
            generator=generator,
            asker=Asker(spec, client, history, keep_prompt, clock),
            reader=reader,
            scraper=self._scraper,
            flusher=Flusher(client, spec.engine, clock),
            history=history,
            clock=clock,
            origin_ns=self._origin_ns,
            before_measuring=self._begin_measuring,
        )

    async def carry_out(self) -> None:
        """Run the plan with reader, scraper and meter beside it; on return every answer is read."""
        await self._scraper.sample()
        async with asyncio.TaskGroup() as group:
            watchers = [group.create_task(part.watch()) for part in (self._reader, self._scraper, self._meter)]
            await self._conductor.run(group)
            self._meter.stop()
            if isinstance(self._client, Workforce):
                self._readings = await self._client.stop_meters()
            self._reader.read_all()
            for watcher in watchers:
                watcher.cancel()
        await self._scraper.sample()

    async def _begin_measuring(self) -> None:
        """Open the connections, read the counters, start the meter."""
        self._connections = await self._client.open_connections(self._connections_wanted)
        await self._scraper.sample()
        if isinstance(self._client, Workforce):
            await self._client.start_meters()
        self._meter.start()

    @property
    def _connections_wanted(self) -> int:
        return self._spec.concurrency if self._spec.connections is None else self._spec.connections

    def closing_record(self) -> CellInfo:
        """The record of a cell that was carried out."""
        ended = Ended(
            started_utc=self._started_utc,
            origin_ns=self._origin_ns,
            connections_asked=0 if self._connections is None else self._connections_wanted,
            connections_open=0 if self._connections is None else self._connections,
            ended_by=None if self._conductor.stopped is None else self._conductor.stopped.value,
            cut_off=self._conductor.cut_off,
            counters=self._scraper.samples,
            counters_error=self._scraper.error,
            readings=(self._meter.reading, *self._readings),
            troubles=self._client.troubles if isinstance(self._client, Workforce) else (),
            clock_error_ms=self._client.clock_error_ms if isinstance(self._client, Workforce) else None,
        )
        return closing_record(self._spec, self._reader.tally, ended)
