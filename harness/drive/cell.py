"""One cell from its first connection to its closing record."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from harness.clock import Clock
from harness.drive.asker import Asker
from harness.drive.budget import TokenBudget
from harness.drive.conductor import Conductor, Stop
from harness.drive.health import SelfMeter, frozen_garbage
from harness.drive.ports import History, KeepPrompt, Sender
from harness.drive.progress import NO_PROGRESS, Progress
from harness.drive.reader import Reader
from harness.drive.scraper import Scraper
from harness.drive.spec import CellSpec
from harness.drive.tally import Tally
from harness.records import CellInfo, HarnessHealth, Outcome
from workloads.plan import Generator, State
from workloads.text import CountTokens

LAG_LIMIT_MS = 20.0


@dataclass(slots=True, kw_only=True)
class _Measuring:
    """What is set up right before the first measured request."""

    spec: CellSpec
    client: Sender
    scraper: Scraper
    meter: SelfMeter
    connections: int = 0
    begun: bool = False

    async def begin(self) -> None:
        """Open the connections, read the counters, start the meter."""
        self.begun = True
        self.connections = await self.client.open_connections(self.spec.concurrency)
        await self.scraper.sample()
        self.meter.start()


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
    started_utc, origin_ns = clock.utc_now().isoformat(), clock.now_ns()
    budget = TokenBudget(spec.max_tokens)
    asker = Asker(spec, client, history, keep_prompt, clock)
    reader = Reader(spec, history, progress, budget, count_tokens)
    scraper = Scraper(client, history, clock, wanted=spec.scrape)
    meter = SelfMeter(clock)
    measuring = _Measuring(spec=spec, client=client, scraper=scraper, meter=meter)
    conductor = Conductor(
        spec=spec,
        generator=generator,
        asker=asker,
        reader=reader,
        scraper=scraper,
        budget=budget,
        history=history,
        clock=clock,
        origin_ns=origin_ns,
        before_measuring=measuring.begin,
    )
    progress.cell_started(spec, _requests_to_come(spec, generator))
    try:
        with frozen_garbage():
            await scraper.sample()
            await _conducted(conductor, reader, scraper, meter)
            await scraper.sample()
        info = _closing_record(spec, started_utc, origin_ns, conductor, reader.tally, measuring)
        history.finish(info)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from group
    finally:
        reader.read_all()
        history.close()
    progress.cell_finished(info)
    return info


async def _conducted(conductor: Conductor[State], reader: Reader, scraper: Scraper, meter: SelfMeter) -> None:
    """Run the plan with reader, scraper and meter beside it; on return every answer is read."""
    async with asyncio.TaskGroup() as group:
        watchers = [group.create_task(part.watch()) for part in (reader, scraper, meter)]
        await conductor.run(group)
        meter.stop()
        reader.read_all()
        for watcher in watchers:
            watcher.cancel()


def _requests_to_come(spec: CellSpec, generator: Generator[State]) -> int | None:
    """Measured requests of the cell if that is known: the spec's limit, or what the plan says of itself."""
    if spec.max_requests is not None:
        return spec.max_requests
    planned = generator.spec().get("requests")
    return planned if isinstance(planned, int) else None


def _closing_record(
    spec: CellSpec,
    started_utc: str,
    origin_ns: int,
    conductor: Conductor[State],
    tally: Tally,
    measuring: _Measuring,
) -> CellInfo:
    scraper = measuring.scraper
    health = _health(spec, tally, measuring)
    return CellInfo(
        cell=spec.cell,
        workload=spec.workload,
        concurrency=spec.concurrency,
        round_index=spec.round_index,
        cache_mode=spec.cache_mode,
        nonce=spec.nonce,
        started_utc=started_utc,
        origin_ns=origin_ns,
        window_start_ns=tally.window_start_ns,
        window_end_ns=tally.window_end_ns,
        warmup_requests=tally.warmup_requests,
        sent=tally.measured,
        ok=tally.outcomes[Outcome.OK],
        refused=tally.outcomes[Outcome.REFUSED],
        unknown=tally.outcomes[Outcome.UNKNOWN],
        health=health,
        counters=tuple(scraper.samples),
        counters_error=scraper.error,
        retries=tally.retries,
        unparsed_events=tally.unparsed_events,
        warnings=tuple(_warnings(conductor, health)),
    )


def _health(spec: CellSpec, tally: Tally, measuring: _Measuring) -> HarnessHealth:
    lag_p50_ms, lag_p99_ms, lag_max_ms = measuring.meter.lag_ms
    delay_p50_ms, delay_p99_ms = tally.send_delay_ms
    return HarnessHealth(
        loop_lag_p50_ms=lag_p50_ms,
        loop_lag_p99_ms=lag_p99_ms,
        loop_lag_max_ms=lag_max_ms,
        send_delay_p50_ms=delay_p50_ms,
        send_delay_p99_ms=delay_p99_ms,
        cpu_share=measuring.meter.cpu_share,
        achieved_concurrency=tally.achieved_concurrency,
        connections_asked=spec.concurrency if measuring.begun else 0,
        connections_open=measuring.connections,
    )


def _warnings(conductor: Conductor[State], health: HarnessHealth) -> list[str]:
    """What a reader of this cell's figures has to know."""
    warnings: list[str] = []
    if conductor.stopped is Stop.TOKENS:
        warnings.append(f"the cell ended before its plan: {conductor.stopped}")
    if conductor.cut_off:
        warnings.append(f"{conductor.cut_off} requests were still in flight after the drain and were cut off")
    if health.connections_open < health.connections_asked:
        warnings.append(f"only {health.connections_open} of {health.connections_asked} connections could be opened")
    if health.loop_lag_p99_ms is not None and health.loop_lag_p99_ms > LAG_LIMIT_MS:
        warnings.append(f"the harness itself was late: loop lag p99 {health.loop_lag_p99_ms:.1f} ms")
    return warnings
