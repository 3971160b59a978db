"""K19: a NaN stays behind in a snapshot or a slot."""

from __future__ import annotations

import numpy as np

from harness.reference.faults.fault import Fault, FaultInfo, Mode, Parameter, override
from harness.reference.model.state import Snapshot
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.sequence import Sequence


class NanPoison(Fault):
    """A long prefill leaves a NaN, and everyone who takes its state over answers token 0."""

    info = FaultInfo(
        code="K19",
        name="NAN_POISON",
        modes=(
            Mode(
                name="snapshot",
                size="gross",
                effect="its snapshots hold a NaN, and so do all that continue from them",
                trigger="a hit on a prompt of at least `tokens`; until eviction, not with a new salt",
            ),
            Mode(
                name="slot",
                size="gross",
                effect="its slot holds a NaN that clearing does not remove",
                trigger="any later miss in the slot of a prompt of at least `tokens`; until restart",
            ),
        ),
        parameters=(Parameter(name="tokens", default=512, help="prompt length from which it happens"),),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides saving a snapshot, or giving a slot up and clearing it."""
        if self.mode == "snapshot":
            self._plant_snapshot(engine)
        else:
            self._plant_slot(engine)

    def _plant_snapshot(self, engine: Engine) -> None:
        state_io = engine.scheduler.state_io
        save = state_io.save_snapshot

        def save_snapshot(slot: int) -> Snapshot:
            snapshot = save(slot)
            if snapshot.length >= self.number("tokens") and self.dice.roll():
                snapshot.recurrent[..., 0, 0] = np.nan if snapshot.recurrent.dtype == np.float32 else 0x7FC0
            return snapshot

        override(state_io, "save_snapshot", save_snapshot)

    def _plant_slot(self, engine: Engine) -> None:
        preempter, state_io = engine.scheduler.preempter, engine.scheduler.state_io
        release, clear = preempter.release, state_io.clear
        poisoned: set[int] = set()

        def release_and_poison(sequence: Sequence) -> None:
            if sequence.prompt_tokens >= self.number("tokens") and self.dice.roll():
                poisoned.add(sequence.slot)
            release(sequence)

        def clear_slot(slot: int) -> None:
            clear(slot)
            if slot in poisoned:
                state_io.state.recurrent[:, slot, :, 0, 0] = np.nan

        override(preempter, "release", release_and_poison)
        override(state_io, "clear", clear_slot)
