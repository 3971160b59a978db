"""K07: a snapshot is stored with other numbers than the live state has."""

from __future__ import annotations

import numpy as np

from harness.reference.faults import slot_state
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.faults.slot_state import SlotState
from harness.reference.model.arrays import F32, round_bf16
from harness.reference.model.state import Snapshot
from harness.reference.scheduler.engine import Engine

CHUNK = 64
FP8_MANTISSA_BITS = 3


class SnapshotPrecision(Fault):
    """The kept state is rounded, or its bytes are read in another order."""

    info = FaultInfo(
        code="K07",
        name="SNAPSHOT_PRECISION",
        modes=(
            Mode(
                name="cast",
                size="subtle",
                effect="rounded to bfloat16, below the noise of a bfloat16 server",
                trigger="any hit",
            ),
            Mode(
                name="unaligned",
                size="subtle",
                effect="rounded to bfloat16",
                trigger=f"a hit at a position that is no multiple of {CHUNK}",
            ),
            Mode(name="fp8", size="subtle", effect="rounded to 3 bits of mantissa", trigger="any hit"),
            Mode(
                name="reinterpret",
                size="medium",
                effect="the heads and rows of the state are read in each other's strides",
                trigger="any hit",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides saving a snapshot."""
        state_io = engine.scheduler.state_io
        save = state_io.save_snapshot

        def save_snapshot(slot: int) -> Snapshot:
            snapshot = save(slot)
            if (self.mode == "unaligned" and snapshot.length % CHUNK == 0) or not self.dice.roll():
                return snapshot
            content = slot_state.content_of(snapshot)
            if self.mode == "reinterpret":
                changed = SlotState(recurrent=_restrided(content.recurrent), conv=content.conv)
            else:
                rounded = _to_fp8 if self.mode == "fp8" else round_bf16
                changed = SlotState(recurrent=rounded(content.recurrent), conv=rounded(content.conv))
            return slot_state.with_content(snapshot, changed)

        override(state_io, "save_snapshot", save_snapshot)


def _to_fp8(x: F32) -> F32:
    """Values with the mantissa of an 8-bit float (e4m3); its small range is taken to be scaled away."""
    fraction, exponent = np.frexp(x)
    steps = np.float32(2 ** (FP8_MANTISSA_BITS + 1))
    return np.asarray(np.ldexp(np.round(fraction * steps) / steps, exponent), np.float32)


def _restrided(recurrent: F32) -> F32:
    """``[layers, heads, K, V]`` written in that order and read as ``[layers, K, heads, V]``."""
    layers, heads, keys, values = recurrent.shape
    return np.ascontiguousarray(recurrent.reshape(layers, keys, heads, values).swapaxes(1, 2))
