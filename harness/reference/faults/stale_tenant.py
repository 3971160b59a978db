"""K11: a new sequence finds the state of the one before it."""

from __future__ import annotations

from harness.reference.faults import slot_state
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.scheduler.engine import Engine


class StaleTenant(Fault):
    """A slot is handed on without being zeroed."""

    info = FaultInfo(
        code="K11",
        name="STALE_TENANT",
        modes=(
            Mode(
                name="unzeroed",
                size="medium",
                effect="a request without a hit starts from its slot's previous state",
                trigger="a miss in a slot that was used before; never right after the start",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides clearing a slot."""
        state_io = engine.scheduler.state_io
        clear, state = state_io.clear, state_io.state
        used: set[int] = set()

        def clear_slot(slot: int) -> None:
            before = slot_state.read(state, slot)
            clear(slot)
            if slot in used and self.dice.roll():
                slot_state.write(state, slot, before)
            used.add(slot)

        override(state_io, "clear", clear_slot)
