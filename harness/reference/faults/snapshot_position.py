"""K03: a snapshot belongs to another position than its key says."""

from __future__ import annotations

import numpy as np

from harness.reference.faults import slot_state
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.faults.slot_state import SlotState
from harness.reference.model.arrays import F32
from harness.reference.model.state import Snapshot
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.scheduler import Plan


class SnapshotPosition(Fault):
    """The state kept for the first P tokens is that after fewer, or more."""

    info = FaultInfo(
        code="K03",
        name="SNAPSHOT_WRONG_POSITION",
        modes=(
            Mode(
                name="early", size="gross", effect="it is one block behind", trigger="snapshots kept while prefilling"
            ),
            Mode(
                name="late",
                size="gross",
                effect="it includes the tokens of the next forward, which a hit then applies again",
                trigger="snapshots kept while prefilling",
            ),
            Mode(
                name="units",
                size="gross",
                effect="its index is computed with blocks of twice the size, so it is one block behind",
                trigger="snapshots kept while prefilling, at odd block numbers",
            ),
            Mode(
                name="packed",
                size="gross",
                effect="its place is taken from the packed batch, so it is behind by the offset in a block",
                trigger="snapshots of every request but the first in a prefill batch, unless blocks happen to align",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides the forward that leads to a snapshot, and saving it."""
        if self.mode == "late":
            self._plant_late(engine)
        else:
            self._plant_early(engine)

    def _plant_early(self, engine: Engine) -> None:
        """Cuts each forward where the snapshot is to be taken from, so that it is exact for that position."""
        runner, state_io, scheduler = engine.prefiller.runner, engine.scheduler.state_io, engine.scheduler
        prefill, save, plan = runner.prefill, state_io.save_snapshot, scheduler.plan
        behind: dict[int, SlotState] = {}
        offsets: dict[int, int] = {}

        def planned(now_ns: int) -> Plan:
            made, offset = plan(now_ns), 0
            for sequence, span in made.chunks:
                offsets[sequence.slot] = offset
                offset += span.stop - span.start
            return made

        def prefill_in_two(slot: int, tokens: list[int]) -> F32:
            behind.pop(slot, None)
            length = int(state_io.state.length[slot]) + len(tokens)
            tail = min(self._distance(length, offsets.get(slot, 0), scheduler.limits.block_size), len(tokens))
            if tail == 0:
                return prefill(slot, tokens)
            first = prefill(slot, tokens[:-tail]) if tail < len(tokens) else None
            behind[slot] = slot_state.read(state_io.state, slot)
            last = prefill(slot, tokens[-tail:])
            return last if first is None else np.concatenate([first, last])

        def save_snapshot(slot: int) -> Snapshot:
            snapshot, earlier = save(slot), behind.pop(slot, None)
            if earlier is None or not self.dice.roll():
                return snapshot
            return slot_state.with_content(snapshot, earlier)

        override(scheduler, "plan", planned)
        override(runner, "prefill", prefill_in_two)
        override(state_io, "save_snapshot", save_snapshot)

    def _distance(self, position: int, offset: int, block_size: int) -> int:
        """How many tokens the snapshot for a position lies behind."""
        if self.mode == "early":
            return block_size
        if self.mode == "units":
            return position // block_size % 2 * block_size
        return offset % block_size

    def _plant_late(self, engine: Engine) -> None:
        """Fills a snapshot once more after the next forward of its slot."""
        runner, state_io, slots = engine.prefiller.runner, engine.scheduler.state_io, engine.scheduler.slots
        prefill, save, free = runner.prefill, state_io.save_snapshot, slots.free
        kept: dict[int, Snapshot] = {}
        prefilled: set[int] = set()

        def prefill_and_fill(slot: int, tokens: list[int]) -> F32:
            hidden = prefill(slot, tokens)
            prefilled.add(slot)
            if slot in kept:
                slot_state.overwrite(kept.pop(slot), slot_state.read(state_io.state, slot))
            return hidden

        def save_snapshot(slot: int) -> Snapshot:
            snapshot = save(slot)
            if slot in prefilled and self.dice.roll():
                kept[slot] = snapshot
            return snapshot

        def free_slot(slot: int) -> None:
            kept.pop(slot, None)
            prefilled.discard(slot)
            free(slot)

        override(runner, "prefill", prefill_and_fill)
        override(state_io, "save_snapshot", save_snapshot)
        override(slots, "free", free_slot)
