"""A round: one plan, written down before its first request, run as one cell."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace

from harness.clock import Clock
from harness.drive.cell import run_cell
from harness.drive.nonce import new_nonce
from harness.drive.ports import Sender
from harness.drive.progress import NO_PROGRESS, Progress
from harness.drive.spec import CellSpec
from harness.records import CellInfo, RoundPlan
from harness.store import RunFolder
from workloads.plan import Generator, Json, State
from workloads.text import CountTokens


def round_plan(spec: CellSpec, generator: Generator[State], parent_verdict: str | None = None) -> RoundPlan:
    """The line of plan.jsonl; equal digests mean the same steps were planned, whatever the load level."""
    plan = generator.spec()
    return RoundPlan(
        round_index=spec.round_index,
        cell=spec.cell,
        generator=generator.name,
        generator_version=generator.version,
        seed=spec.seed,
        spec=plan,
        digest=_digest(generator.name, generator.version, spec.seed, plan),
        parent_verdict=parent_verdict,
        concurrency=spec.concurrency,
        context_tokens=spec.context_tokens,
        arrivals=spec.arrivals,
        request_rate=spec.request_rate,
    )


def _digest(name: str, version: int, seed: int, plan: Mapping[str, Json]) -> str:
    """SHA-256, hexadecimal, of the plan's identity as JSON with sorted keys."""
    identity = {"generator": name, "version": version, "seed": seed, "spec": plan}
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


async def run_round(
    run: RunFolder,
    spec: CellSpec,
    generator: Generator[State],
    client: Sender,
    clock: Clock,
    progress: Progress = NO_PROGRESS,
    *,
    parent_verdict: str | None = None,
    count_tokens: CountTokens | None = None,
) -> CellInfo:
    """Write the plan, open the cell, run it; a cell that was begun before gets another nonce.

    A spec without a nonce gets one of its own unless its cache mode is "keep".
    """
    run.plan_round(round_plan(spec, generator, parent_verdict))
    with run.cell(spec.cell) as history:
        if spec.nonce is None and spec.cache_mode != "keep":
            spec = replace(spec, nonce=new_nonce(run.info.run_id, spec.cell, history.attempt))
        return await run_cell(
            spec, generator, client, history, clock, progress, keep_prompt=run.prompt, count_tokens=count_tokens
        )
