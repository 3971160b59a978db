"""Runs one cell in virtual time and gives back everything there is to look at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.drive import CellSpec, run_cell
from harness.endpoint.encode import EncodedRequest
from harness.records import CellInfo, Complete, Invoke
from tests.drive.fakes import FakeClient, FakeHistory, S, Script
from tests.virtual_time import VirtualClock, run_virtual
from workloads.plan import Generator


@dataclass(slots=True)
class SeenProgress:
    """Notes what a display would have been told."""

    requests: int | None = None
    finished: list[tuple[Invoke, Complete]] = field(default_factory=list)
    info: CellInfo | None = None

    def cell_started(self, spec: CellSpec, requests: int | None) -> None:
        self.requests = requests

    def request_finished(self, invoke: Invoke, complete: Complete) -> None:
        self.finished.append((invoke, complete))

    def cell_finished(self, info: CellInfo) -> None:
        self.info = info


@dataclass(slots=True, kw_only=True)
class Ran:
    """A cell that ran: the info is None if it was cancelled."""

    info: CellInfo | None
    client: FakeClient
    history: FakeHistory
    progress: SeenProgress
    prompts: dict[str, bytes]

    @property
    def closing(self) -> CellInfo:
        assert self.info is not None
        return self.info


def cell_spec(concurrency: int = 4, **more: Any) -> CellSpec:
    return CellSpec(cell="c", workload="test", concurrency=concurrency, seed=1, **more)


def run(
    generator: Generator[Any],
    spec: CellSpec,
    answers: Callable[[EncodedRequest], Script] = lambda request: Script(),
    *,
    cancel_after_ns: int | None = None,
    fail_after: int | None = None,
    metrics: str | None = "# TYPE requests counter\nrequests_total 1\n",
    connections: int | None = None,
) -> Ran:
    async def main(clock: VirtualClock) -> Ran:
        client = FakeClient(clock, answers, metrics=metrics, connections=connections)
        history = FakeHistory(fail_after=fail_after)
        progress = SeenProgress()
        prompts: dict[str, bytes] = {}
        task = asyncio.create_task(
            run_cell(spec, generator, client, history, clock, progress, keep_prompt=prompts.__setitem__)
        )
        if cancel_after_ns is not None:
            await asyncio.sleep(cancel_after_ns / S)
            task.cancel()
        await asyncio.wait([task])
        info = None if task.cancelled() else task.result()
        return Ran(info=info, client=client, history=history, progress=progress, prompts=prompts)

    return run_virtual(main)
