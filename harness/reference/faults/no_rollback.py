"""K20: rejected drafts stay in the state."""

from __future__ import annotations

from harness.reference.faults import slot_state
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.model.model import StepStates
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.forward import KeptStates


class NoRollback(Fault):
    """Length and latents are rolled back, recurrent and convolution state are not."""

    info = FaultInfo(
        code="K20",
        name="NO_ROLLBACK",
        modes=(
            Mode(
                name="keep",
                size="gross",
                effect="the state goes on with every token that was verified",
                trigger="a verify step that rejects a draft",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides rolling back."""
        rollback = engine.decoder.rollback
        rewind, state = rollback.rewind, rollback.state

        def rewind_length_alone(states: KeptStates, row: int, slot: int, kept: int) -> None:
            rewind(states, row, slot, kept)
            assert isinstance(states, StepStates)
            width = states.hidden.shape[1]
            if kept < width and self.dice.roll():
                slot_state.write(state, slot, slot_state.passed_through(states, state, row, slot, width))

        override(rollback, "rewind", rewind_length_alone)
