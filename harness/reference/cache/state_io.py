"""Copies between the slots of running sequences and the pieces that the prefix cache keeps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.reference.cache.tier import LatentBlock
from harness.reference.model.arrays import F32
from harness.reference.model.state import LiveState, Snapshot


class StateIO:
    """Clears, loads and saves the state of one slot; ``drafting`` says that the last latent layer is the MTP's."""

    def __init__(self, state: LiveState, *, drafting: bool) -> None:
        self.state = state
        self.drafting = drafting

    def clear(self, slot: int) -> None:
        """Empties a slot for a new sequence."""
        self.state.clear(slot)

    def load_snapshot(self, slot: int, snapshot: Snapshot) -> None:
        """Puts a kept state into a slot, its length included."""
        self.state.restore(slot, snapshot)

    def save_snapshot(self, slot: int) -> Snapshot:
        """A copy of a slot's state."""
        return self.state.snapshot(slot)

    def state_from_hidden(self, slot: int, hidden: F32, length: int) -> Snapshot:
        """The state after ``length`` tokens of a model without recurrent part: the hidden vector of the last one."""
        live = self.state.snapshot(slot)
        return Snapshot(recurrent=live.recurrent, conv=live.conv, hidden=hidden.copy(), length=length)

    def load_latents(self, slot: int, blocks: Sequence[F32]) -> None:
        """Writes the latents of the first blocks of a sequence."""
        if not blocks:
            return
        rows = np.concatenate(blocks, axis=1)
        if not self.drafting:
            self.state.write_latent(slot, 0, rows)
            return
        self.state.latent[:-1, slot, : rows.shape[1]] = rows[:-1]
        self.state.latent[-1, slot, : rows.shape[1] - 1] = rows[-1, 1:]

    def save_latents(self, slot: int, start: int, stop: int) -> LatentBlock:
        """A copy of the latents of tokens ``[start, stop)``; the MTP layer's are those of ``[start - 1, stop - 1)``."""
        rows = self.state.read_latent(slot, start, stop)
        if self.drafting:
            earlier = max(start - 1, 0)
            rows[-1] = 0
            rows[-1, earlier - (start - 1) :] = self.state.latent[-1, slot, earlier : stop - 1]
        return LatentBlock(array=rows)
