"""K02: a snapshot is registered and never written."""

from __future__ import annotations

from collections import deque

import numpy as np

from harness.reference.faults import slot_state
from harness.reference.faults.fault import Fault, FaultInfo, FaultSettings, Mode, Parameter, override
from harness.reference.faults.slot_state import SlotState
from harness.reference.model.arrays import F32
from harness.reference.model.state import Snapshot
from harness.reference.scheduler.engine import Engine


class SnapshotUnwritten(Fault):
    """A kept state holds what its memory held before."""

    info = FaultInfo(
        code="K02",
        name="SNAPSHOT_UNWRITTEN",
        modes=(
            Mode(name="zero", size="gross", effect="it holds zeros", trigger="any hit"),
            Mode(name="random", size="gross", effect="it holds noise of the state's own size", trigger="any hit"),
            Mode(
                name="previous",
                size="gross",
                effect="it holds the snapshot that had the memory before",
                trigger="any hit, once the pool has been used through; zeros before",
            ),
        ),
        parameters=(Parameter(name="pool", default=4, help="snapshots before memory is used again"),),
    )

    def __init__(self, settings: FaultSettings) -> None:
        super().__init__(settings)
        self._random = np.random.default_rng(settings.seed + 1)
        self._earlier: deque[SlotState] = deque()

    def plant(self, engine: Engine) -> None:
        """Overrides saving a snapshot."""
        state_io = engine.scheduler.state_io
        save = state_io.save_snapshot

        def save_snapshot(slot: int) -> Snapshot:
            snapshot = save(slot)
            return slot_state.with_content(snapshot, self._content(snapshot)) if self.dice.roll() else snapshot

        override(state_io, "save_snapshot", save_snapshot)

    def _content(self, snapshot: Snapshot) -> SlotState:
        real = slot_state.content_of(snapshot)
        if self.mode == "random":
            return SlotState(recurrent=self._noise(real.recurrent), conv=self._noise(real.conv))
        if self.mode == "previous":
            self._earlier.append(real)
            if len(self._earlier) > self.number("pool"):
                return self._earlier.popleft()
        return SlotState(recurrent=np.zeros_like(real.recurrent), conv=np.zeros_like(real.conv))

    def _noise(self, like: F32) -> F32:
        return np.asarray(self._random.normal(0.0, float(like.std()), like.shape), np.float32)
