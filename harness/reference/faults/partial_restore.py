"""K08: part of a snapshot is not restored."""

from __future__ import annotations

import numpy as np

from harness.reference.faults.fault import Fault, FaultInfo, Mode, Parameter, override
from harness.reference.model.state import LiveState, Snapshot
from harness.reference.scheduler.engine import Engine


class PartialRestore(Fault):
    """One layer, one head, one side buffer is missing after a hit, or layers are wired to each other."""

    info = FaultInfo(
        code="K08",
        name="PARTIAL_COMPONENT_RESTORE",
        modes=(
            Mode(name="layer", size="medium", effect="one KDA layer starts from nothing", trigger="any hit"),
            Mode(
                name="rank", size="medium", effect="the last head of every layer starts from nothing", trigger="any hit"
            ),
            Mode(
                name="sidecar",
                size="medium",
                effect="one layer's convolution window is empty",
                trigger="any hit",
            ),
            Mode(name="crossed", size="gross", effect="each layer gets the state of the next", trigger="any hit"),
        ),
        parameters=(Parameter(name="layer", default=1, help="KDA layer that is left out, from 0"),),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides loading a snapshot."""
        state_io = engine.scheduler.state_io
        load = state_io.load_snapshot

        def load_snapshot(slot: int, snapshot: Snapshot) -> None:
            load(slot, snapshot)
            if self.dice.roll():
                self._spoil(state_io.state, slot)

        override(state_io, "load_snapshot", load_snapshot)

    def _spoil(self, state: LiveState, slot: int) -> None:
        layer = self.number("layer") % max(1, len(state.recurrent))
        if self.mode == "crossed":
            state.recurrent[:, slot] = np.roll(state.recurrent[:, slot], -1, axis=0)
            state.conv[:, slot] = np.roll(state.conv[:, slot], -1, axis=0)
        elif self.mode == "rank":
            state.recurrent[:, slot, -1] = 0
        elif self.mode == "layer":
            state.recurrent[layer : layer + 1, slot] = 0
            state.conv[layer : layer + 1, slot] = 0
        else:
            state.conv[layer : layer + 1, slot] = 0
