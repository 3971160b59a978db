"""K05: the convolution window is lost, or written where it does not belong."""

from __future__ import annotations

from harness.reference.faults import slot_state
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.faults.slot_state import SlotState
from harness.reference.model.arrays import F32
from harness.reference.model.state import Snapshot
from harness.reference.scheduler.engine import Engine

SHORT_TAIL = 2
"""Tails of this many tokens or fewer leave part of the old window in place (kernel 4)."""


class ConvLost(Fault):
    """The recurrent state is right, the last three projections before the convolution are not."""

    info = FaultInfo(
        code="K05",
        name="CONV_STATE_LOST",
        modes=(
            Mode(name="zero", size="gross", effect="the window is empty after a hit", trigger="any hit"),
            Mode(
                name="stale",
                size="gross",
                effect="the window is that of the slot's previous sequence",
                trigger="any hit; empty the first time a slot is used",
            ),
            Mode(
                name="write",
                size="gross",
                effect="a short tail writes its window into the shared snapshot, for later sharers to load",
                trigger="a hit with a tail of 1 or 2 tokens",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides loading a snapshot, and for ``write`` the forward after it."""
        if self.mode == "write":
            self._plant_write(engine)
        else:
            self._plant_load(engine)

    def _plant_load(self, engine: Engine) -> None:
        state_io = engine.scheduler.state_io
        clear, load, state = state_io.clear, state_io.load_snapshot, state_io.state
        before: dict[int, F32] = {}

        def clear_slot(slot: int) -> None:
            before[slot] = state.conv[:, slot].copy()
            clear(slot)

        def load_snapshot(slot: int, snapshot: Snapshot) -> None:
            load(slot, snapshot)
            if self.dice.roll():
                state.conv[:, slot] = before[slot] if self.mode == "stale" else 0

        override(state_io, "clear", clear_slot)
        override(state_io, "load_snapshot", load_snapshot)

    def _plant_write(self, engine: Engine) -> None:
        state_io, runner = engine.scheduler.state_io, engine.prefiller.runner
        load, prefill, state = state_io.load_snapshot, runner.prefill, state_io.state
        loaded: dict[int, Snapshot] = {}

        def load_snapshot(slot: int, snapshot: Snapshot) -> None:
            load(slot, snapshot)
            loaded[slot] = snapshot

        def prefill_and_write(slot: int, tokens: list[int]) -> F32:
            hidden, snapshot = prefill(slot, tokens), loaded.pop(slot, None)
            if snapshot is not None and len(tokens) <= SHORT_TAIL and self.dice.roll():
                kept, now = slot_state.content_of(snapshot), slot_state.read(state, slot)
                slot_state.overwrite(snapshot, SlotState(recurrent=kept.recurrent, conv=now.conv))
            return hidden

        override(state_io, "load_snapshot", load_snapshot)
        override(runner, "prefill", prefill_and_write)
