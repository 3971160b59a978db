"""A round is written down before it runs, and a redone cell is cold again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from harness.drive import CellSpec, cell_name, round_plan, run_round
from harness.records import CellInfo, RunInfo, TargetInfo
from harness.store import RunFolder, read_cell
from tests.drive.fakes import MS, FakeClient, Script
from tests.virtual_time import VirtualClock, run_virtual
from workloads.options import WorkloadOptions
from workloads.plan import Generator
from workloads.registry import WORKLOADS
from workloads.text import approximate_count


def run_info(run_id: str = "20260101T000000Z-agent-tiny-abc123") -> RunInfo:
    target = TargetInfo(base_url="http://127.0.0.1:9", chosen_by="option", model="tiny", endpoint_type="chat")
    return RunInfo(
        schema_version=1, run_id=run_id, command="sweep", argv=(), started_utc="2026-01-01T00:00:00Z", clock={},
        versions={}, host={}, target=target, seed=1, options={},
    )  # fmt: skip


def spec(concurrency: int, **more: Any) -> CellSpec:
    return CellSpec(cell=cell_name("agent", concurrency), workload="agent", concurrency=concurrency, seed=1, **more)


def agent(requests: int = 16) -> Generator[Any]:
    options = WorkloadOptions(seed=1, requests=requests, highest_concurrency=8)
    return WORKLOADS["agent"](options, approximate_count)


def run_rounds(run: RunFolder, specs: list[CellSpec], cancel_after_ns: int | None = None) -> list[CellInfo | None]:
    plan = agent()

    async def main(clock: VirtualClock) -> list[CellInfo | None]:
        infos: list[CellInfo | None] = []
        for each in specs:
            client = FakeClient(clock, lambda request: Script(first_ns=100 * MS))
            task = asyncio.create_task(run_round(run, each, plan, client, clock))
            await asyncio.wait([task], timeout=None if cancel_after_ns is None else cancel_after_ns / 1e9)
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
            infos.append(None if task.cancelled() else task.result())
        return infos

    return run_virtual(main)


def sent_prompts(run: RunFolder, cell: str, nonce: str | None) -> dict[str, str]:
    """The prompt of each measured step, without its nonce."""
    prompts = {}
    for record in read_cell(run, cell).records:
        assert record.invoke.prompt_hash is not None
        text = run.read_prompt(record.invoke.prompt_hash).decode()
        assert nonce is None or f"[{nonce}]" in text
        prompts[record.invoke.key] = text if nonce is None else text.replace(nonce, "")
    return prompts


def test_cells_send_the_same_prompts_at_every_concurrency_but_for_the_nonce(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, run_info()) as run:
        one, eight = run_rounds(run, [spec(1), spec(8)])
    assert one is not None and eight is not None
    assert one.nonce != eight.nonce
    assert sent_prompts(run, one.cell, one.nonce) == sent_prompts(run, eight.cell, eight.nonce)
    assert len(run.rounds()) == 2 and len({line.digest for line in run.rounds()}) == 1


def test_keep_leaves_prompts_alone(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, run_info()) as run:
        (info,) = run_rounds(run, [spec(2, cache_mode="keep")])
    assert info is not None and info.nonce is None
    first = next(iter(sent_prompts(run, info.cell, None).values()))
    assert orjson.loads(first)["messages"][0]["content"].startswith("You are a coding agent")


def test_a_redone_cell_gets_another_nonce(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, run_info()) as run:
        assert run_rounds(run, [spec(2)], cancel_after_ns=500 * MS) == [None]
        cut = read_cell(run, cell_name("agent", 2))
        assert cut.info is None and len(cut.records) >= 4
        (info,) = run_rounds(run, [spec(2)])
    assert info is not None and info.ok == 16
    assert run.aborted_cells() == (f"{info.cell}.aborted-1",)
    assert info.nonce is not None
    old = run.read_prompt(str(cut.records[0].invoke.prompt_hash))
    assert info.nonce.encode() not in old


def test_the_digest_names_the_plan_and_not_the_load() -> None:
    digests = {round_plan(spec(level), agent()).digest for level in (1, 8, 32)}
    assert len(digests) == 1
    assert round_plan(spec(1), agent(17)).digest not in digests
    other_seed = CellSpec(cell="c", workload="agent", concurrency=1, seed=2)
    assert round_plan(other_seed, agent()).digest not in digests


@pytest.mark.parametrize(
    ("wrong", "match"),
    [({"concurrency": 0}, "concurrency"), ({"cache_mode": "hot"}, "cache mode"), ({"raw_every": -1}, "raw_every")],
)
def test_a_cell_spec_that_makes_no_sense_is_refused(wrong: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        CellSpec(**{"cell": "c", "workload": "w", "concurrency": 1, "seed": 1, **wrong})
