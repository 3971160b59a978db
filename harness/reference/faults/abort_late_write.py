"""K14: a write of an aborted sequence lands after its memory has a new owner."""

from __future__ import annotations

from dataclasses import dataclass

from harness.reference.cache.tier import Entry, Kind, LatentBlock
from harness.reference.faults import slot_state
from harness.reference.faults.fault import Fault, FaultInfo, Mode, Parameter, override
from harness.reference.faults.slot_state import SlotState
from harness.reference.model.arrays import F32
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.request import FinishReason
from harness.reference.scheduler.scheduler import Plan
from harness.reference.scheduler.sequence import Sequence


@dataclass(slots=True, kw_only=True)
class _LateWrite:
    """What an aborted sequence still has to write, and in how many steps it does."""

    slot: int
    content: SlotState
    latents: F32
    steps_left: int


class AbortLateWrite(Fault):
    """Each abort of a running sequence leaves one write under way."""

    info = FaultInfo(
        code="K14",
        name="ABORT_LATE_WRITE",
        modes=(
            Mode(
                name="slot",
                size="gross",
                effect="the state of the aborted sequence is written into its former slot",
                trigger="an abort of a running sequence whose slot is in use again some steps later",
            ),
            Mode(
                name="block",
                size="gross",
                effect="its latents are written into the newest block of the cache",
                trigger="an abort of a sequence with a full block, and a block stored in the steps after it",
            ),
        ),
        parameters=(Parameter(name="steps", default=2, help="steps from the abort to the write"),),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides giving up a slot, planning a step, and storing a block."""
        scheduler, preempter, state = engine.scheduler, engine.scheduler.preempter, engine.scheduler.state_io.state
        release, plan, size = preempter.release, scheduler.plan, scheduler.limits.block_size
        under_way: list[_LateWrite] = []
        stored: list[LatentBlock] = []

        def release_and_queue(sequence: Sequence) -> None:
            slot, aborted = sequence.slot, sequence.finish
            if aborted is not None and aborted.reason is FinishReason.ABORT and self.dice.roll():
                late = _LateWrite(
                    slot=slot,
                    content=slot_state.read(state, slot),
                    latents=state.read_latent(slot, 0, size),
                    steps_left=self.number("steps"),
                )
                under_way.append(late)
                stored.clear()
            release(sequence)

        def plan_after_writes(now_ns: int) -> Plan:
            for late in under_way:
                late.steps_left -= 1
                if late.steps_left <= 0:
                    self._write(engine, late, stored)
            under_way[:] = [late for late in under_way if late.steps_left > 0]
            return plan(now_ns)

        override(preempter, "release", release_and_queue)
        override(scheduler, "plan", plan_after_writes)
        if engine.cache is not None:
            store = engine.cache.store

            def store_and_note(kind: Kind, key: bytes, entry: Entry) -> bool:
                if isinstance(entry, LatentBlock):
                    stored.append(entry)
                return store(kind, key, entry)

            override(engine.cache, "store", store_and_note)

    def _write(self, engine: Engine, late: _LateWrite, stored: list[LatentBlock]) -> None:
        if self.mode == "slot":
            slot_state.write(engine.scheduler.state_io.state, late.slot, late.content)
        elif stored:
            stored[-1].array[...] = late.latents
