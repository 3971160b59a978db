"""Runs a whole check in virtual time against a simulated server, into a run folder of its own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.checks.check import Check, CheckBudget
from harness.checks.history import Capabilities
from harness.checks.verdict import Verdict
from harness.drive.checking import CheckSetting, find_capabilities, run_check
from harness.records import SCHEMA_VERSION, RunInfo, TargetInfo
from harness.store import RunFolder
from tests.checks.simulated_server import SimulatedServer, seconds
from tests.virtual_time import VirtualClock, run_virtual
from workloads.material import Material
from workloads.plan import Json
from workloads.text import approximate_count

CORPUS = tuple(random.Random(7).choices(range(1, 500), k=4000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """verdict: None if the check was cancelled."""

    run: RunFolder
    capabilities: Capabilities
    verdict: Verdict | None
    server: SimulatedServer


def run_info(checks: tuple[str, ...], options: Mapping[str, Json], engine: str = "vllm") -> RunInfo:
    target = TargetInfo(
        base_url="http://127.0.0.1:9", chosen_by="option", model="tiny", endpoint_type="auto", engine=engine
    )
    return RunInfo(
        schema_version=SCHEMA_VERSION, run_id="20260101T000000Z-check-tiny-abc123", command="check", argv=(),
        started_utc="2026-01-01T00:00:00Z", clock={}, versions={}, host={}, target=target, seed=1,
        options={"checks": list(checks), **options},
    )  # fmt: skip


def run_simulated(
    check: Check,
    folder: Path,
    *,
    budget: CheckBudget | None = None,
    minutes: float | None = None,
    cancel_after_s: float | None = None,
    max_model_len: int | None = 4096,
    options: Mapping[str, Json] | None = None,
    exclusive: bool = True,
    engine: str = "vllm",
    **server: Any,
) -> Checked:
    """Capabilities, then the check; `server` are fields of the SimulatedServer."""

    async def main(clock: VirtualClock) -> Checked:
        simulated = SimulatedServer(clock=clock, **server)
        setting = CheckSetting(
            budget=CheckBudget(name="small", prompts=16) if budget is None else budget,
            material=Material(seed="t", count=approximate_count, token_ids=CORPUS),
            seed=1,
            engine=engine,
            endpoint_type="completions",
            exclusive=exclusive,
            max_model_len=max_model_len,
            deadline_ns=None if minutes is None else clock.now_ns() + seconds(minutes * 60),
        )
        run = RunFolder.create(folder, run_info((check.name,), {} if options is None else options, engine))
        known = await find_capabilities(setting, run, simulated, clock)
        task = asyncio.create_task(run_check(check, setting, run, simulated, clock))
        await asyncio.wait([task], timeout=cancel_after_s)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
        verdict = None if task.cancelled() else task.result()
        run.close()
        return Checked(run=run, capabilities=known, verdict=verdict, server=simulated)

    return run_virtual(main)
