"""What running sequences carry from token to token, and copies of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness.reference.config import ModelConfig
from harness.reference.model.arrays import F32, I64, U16, from_bf16, to_bf16

SnapshotDtype = Literal["float32", "bfloat16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A copy of what a sequence carries besides its latents, after ``length`` tokens.

    Shapes: recurrent ``[kda_layers, heads, K, V]``, conv ``[kda_layers, 3, 3 * heads * K]``, hidden ``[hidden_size]``
    (after the final norm, of the last token; the MTP layer needs it to go on). float32, or bfloat16 bits.
    """

    recurrent: F32 | U16
    conv: F32 | U16
    hidden: F32 | U16
    length: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the three arrays."""
        return self.recurrent.nbytes + self.conv.nbytes + self.hidden.nbytes


class LiveState:
    """State of ``slots`` running sequences, each with room for ``capacity`` tokens.

    Attributes:
        recurrent: f32 ``[kda_layers, slots, heads, K, V]``.
        conv: f32 ``[kda_layers, slots, 3, 3 * heads * K]``: q, k, v projections before the convolution, oldest first.
        latent: f32 ``[latent_layers, slots, capacity, kv_rank + rope_dim]``; the MTP layer's come last. Row ``i`` of
            the MTP layer belongs to the hidden vector of token ``i`` and the embedding of token ``i + 1``.
        hidden: f32 ``[slots, hidden_size]``, after the final norm, of the last token; zero when there is none.
        length: i64 ``[slots]``, tokens already in the state.
    """

    def __init__(
        self, config: ModelConfig, slots: int, capacity: int, *, snapshot_dtype: SnapshotDtype = "float32"
    ) -> None:
        c = config
        self.config = config
        self.slots = slots
        self.capacity = capacity
        self.snapshot_dtype = snapshot_dtype
        self.recurrent: F32 = np.zeros((c.kda_layers, slots, c.heads, c.head_dim, c.head_dim), np.float32)
        self.conv: F32 = np.zeros((c.kda_layers, slots, c.conv_kernel - 1, 3 * c.kda_dim), np.float32)
        self.latent: F32 = np.zeros((c.latent_layers, slots, capacity, c.latent_dim), np.float32)
        self.hidden: F32 = np.zeros((slots, c.hidden_size), np.float32)
        self.length: I64 = np.zeros(slots, np.int64)

    def clear(self, slot: int) -> None:
        """Empties a slot; its latents stay in memory but lie beyond its length."""
        self.recurrent[:, slot] = 0
        self.conv[:, slot] = 0
        self.hidden[slot] = 0
        self.length[slot] = 0

    def snapshot(self, slot: int) -> Snapshot:
        """A copy of the slot's recurrent, convolution and hidden state, in ``snapshot_dtype``."""
        parts = (self.recurrent[:, slot], self.conv[:, slot], self.hidden[slot])
        if self.snapshot_dtype == "bfloat16":
            recurrent, conv, hidden = (to_bf16(part) for part in parts)
            return Snapshot(recurrent=recurrent, conv=conv, hidden=hidden, length=int(self.length[slot]))
        r, v, h = (part.copy() for part in parts)
        return Snapshot(recurrent=r, conv=v, hidden=h, length=int(self.length[slot]))

    def restore(self, slot: int, snapshot: Snapshot) -> None:
        """Puts a snapshot back, length included; latents ``[0, length)`` are the caller's to write."""
        self.recurrent[:, slot] = _float32(snapshot.recurrent)
        self.conv[:, slot] = _float32(snapshot.conv)
        self.hidden[slot] = _float32(snapshot.hidden)
        self.length[slot] = snapshot.length

    def read_latent(self, slot: int, start: int, stop: int) -> F32:
        """A copy of the latents of tokens ``[start, stop)``: ``[latent_layers, stop - start, kv_rank + rope_dim]``."""
        return self.latent[:, slot, start:stop].copy()

    def write_latent(self, slot: int, start: int, latent: F32) -> None:
        """Writes what ``read_latent`` gave, from token ``start`` on."""
        self.latent[:, slot, start : start + latent.shape[1]] = latent


def _float32(x: F32 | U16) -> F32:
    return from_bf16(x) if x.dtype == np.uint16 else x  # type: ignore[arg-type, return-value]
