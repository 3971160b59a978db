"""K01: a hit whose recurrent state is not there."""

from __future__ import annotations

from harness.reference.faults import slot_state
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.model.arrays import F32
from harness.reference.model.state import Snapshot
from harness.reference.scheduler.engine import Engine


class StateMissing(Fault):
    """The latents of a hit are restored, its KDA layers start from nothing."""

    info = FaultInfo(
        code="K01",
        name="STATE_MISSING_ON_HIT",
        modes=(
            Mode(name="skip", size="gross", effect="no state is loaded", trigger="any hit"),
            Mode(
                name="cleared",
                size="gross",
                effect="the loaded state is cleared again, with the vector the MTP layer goes on from",
                trigger="any hit",
            ),
            Mode(
                name="multitoken",
                size="gross",
                effect="the first forward after the hit ignores the state",
                trigger="a hit that leaves two tokens or more to compute",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides loading a snapshot, and for ``multitoken`` the forward after it."""
        state_io, runner = engine.scheduler.state_io, engine.prefiller.runner
        load, prefill, state = state_io.load_snapshot, runner.prefill, state_io.state
        loaded: set[int] = set()

        def load_snapshot(slot: int, snapshot: Snapshot) -> None:
            load(slot, snapshot)
            if self.mode == "multitoken":
                loaded.add(slot)
            elif self.dice.roll():
                slot_state.zero(state, slot)
                if self.mode == "cleared":
                    state.hidden[slot] = 0

        def prefill_without_state(slot: int, tokens: list[int]) -> F32:
            if slot in loaded and len(tokens) > 1 and self.dice.roll():
                slot_state.zero(state, slot)
            loaded.discard(slot)
            return prefill(slot, tokens)

        override(state_io, "load_snapshot", load_snapshot)
        override(runner, "prefill", prefill_without_state)
