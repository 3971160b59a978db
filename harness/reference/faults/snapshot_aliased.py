"""K06: a snapshot shares memory with the sequence it was taken from."""

from __future__ import annotations

from harness.reference.faults import slot_state
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.model.state import Snapshot
from harness.reference.scheduler.engine import Engine


class SnapshotAliased(Fault):
    """What the donor goes on to compute ends up in the kept state."""

    info = FaultInfo(
        code="K06",
        name="SNAPSHOT_ALIASED",
        modes=(
            Mode(
                name="view",
                size="gross",
                effect="the snapshot follows its donor's state until the donor ends",
                trigger="a hit after the donor went past the boundary; the same branch stays wrong",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides saving a snapshot; the shared memory is brought up to date whenever someone may look at it."""
        state_io, slots = engine.scheduler.state_io, engine.scheduler.slots
        save, load, free = state_io.save_snapshot, state_io.load_snapshot, slots.free
        aliases: dict[int, list[Snapshot]] = {}

        def follow(slot: int) -> None:
            for snapshot in aliases.get(slot, []):
                slot_state.overwrite(snapshot, slot_state.read(state_io.state, slot))

        def save_snapshot(slot: int) -> Snapshot:
            snapshot = save(slot)
            if self.dice.roll():
                aliases.setdefault(slot, []).append(snapshot)
            return snapshot

        def load_snapshot(slot: int, snapshot: Snapshot) -> None:
            for donor, snapshots in aliases.items():
                if any(snapshot is shared for shared in snapshots):
                    follow(donor)
            load(slot, snapshot)

        def free_slot(slot: int) -> None:
            follow(slot)
            aliases.pop(slot, None)
            free(slot)

        override(state_io, "save_snapshot", save_snapshot)
        override(state_io, "load_snapshot", load_snapshot)
        override(slots, "free", free_slot)
