"""A flush step is carried out, recorded, and seen by the generator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.drive import run_cell
from harness.records import CellInfo, Complete, Outcome
from tests.drive.fakes import FakeClient, FakeHistory, ask
from tests.drive.running import cell_spec
from tests.virtual_time import VirtualClock, run_virtual
from workloads.plan import Done, Flush, Json, Observation, Step, Wait


@dataclass(slots=True)
class AskFlushAsk:
    """One request, a flush once it was answered, another request once the flush was."""

    name: str = "flushing"
    version: int = 1
    reacts: bool = True
    seen: list[Observation] = field(default_factory=list)

    def spec(self) -> Mapping[str, Json]:
        return {}

    def start(self) -> int:
        return 0

    def next(self, state: int, observation: Observation | None, now_ns: int) -> tuple[int, Step | Wait | Done]:
        if observation is not None:
            self.seen.append(observation)
        steps: tuple[Step, ...] = (ask("before"), Flush(key="flush"), ask("after"))
        if len(self.seen) < state:
            return state, Wait()
        return (state + 1, steps[state]) if state < len(steps) else (state, Done())


def carried_out(controls: dict[str, str]) -> tuple[AskFlushAsk, FakeHistory, FakeClient]:
    generator = AskFlushAsk()

    async def main(clock: VirtualClock) -> tuple[CellInfo, FakeHistory, FakeClient]:
        client = FakeClient(clock, controls=controls)
        history = FakeHistory()
        spec = cell_spec(engine="vllm")
        info = await run_cell(spec, generator, client, history, clock, keep_prompt=lambda name, content: None)
        return info, history, client

    _, history, client = run_virtual(main)
    return generator, history, client


def flush_record(history: FakeHistory) -> Complete:
    (invoke,) = [each for each in history.invokes if each.step == "flush"]
    return next(each for each in history.completes if each.request_id == invoke.request_id)


def test_a_flush_lands_in_the_history_with_its_outcome() -> None:
    generator, history, client = carried_out({"/reset_prefix_cache": '{"success":true}'})
    assert client.posted == ["/reset_prefix_cache"]
    assert flush_record(history).outcome is Outcome.OK
    assert [(each.key, each.outcome) for each in generator.seen][1] == ("flush", "ok")
    assert [each.key for each in history.invokes] == ["before", "flush", "after"]


def test_a_server_without_the_route_refuses_and_the_plan_goes_on() -> None:
    generator, history, _ = carried_out({})
    record = flush_record(history)
    assert record.outcome is Outcome.REFUSED
    assert record.error is not None and record.error.http_status == 404
    assert [each.outcome for each in generator.seen] == ["ok", "refused", "ok"]
