"""K22: the recurrent state is rolled back, the convolution window is not."""

from __future__ import annotations

import numpy as np

from harness.reference.faults import slot_state
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.model.model import StepStates
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.forward import KeptStates


class ConvRollback(Fault):
    """After a rejection the next three tokens see the wrong neighbours."""

    info = FaultInfo(
        code="K22",
        name="CONV_ROLLBACK_WRONG",
        modes=(
            Mode(
                name="shifted",
                size="gross",
                effect="the window ends at the last verified token",
                trigger="a verify step that rejects a draft; never full acceptance",
            ),
            Mode(
                name="mixed",
                size="gross",
                effect="the window's channels are shifted by the number of rejected drafts",
                trigger="a verify step that rejects a draft; never full acceptance",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides rolling back."""
        rollback = engine.decoder.rollback
        rewind, state = rollback.rewind, rollback.state

        def rewind_all_but_window(states: KeptStates, row: int, slot: int, kept: int) -> None:
            rewind(states, row, slot, kept)
            assert isinstance(states, StepStates)
            width = states.hidden.shape[1]
            if kept == width or not self.dice.roll():
                return
            if self.mode == "shifted":
                state.conv[:, slot] = slot_state.passed_through(states, state, row, slot, width).conv
            else:
                state.conv[:, slot] = np.roll(state.conv[:, slot], width - kept, axis=-1)

        override(rollback, "rewind", rewind_all_but_window)
