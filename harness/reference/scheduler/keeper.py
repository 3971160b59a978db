"""Offering what running sequences computed to the prefix cache."""

from __future__ import annotations

from harness.reference.cache.policy import SnapshotPolicy
from harness.reference.cache.prefix import PrefixCache
from harness.reference.cache.state_io import StateIO
from harness.reference.cache.tier import Kind
from harness.reference.model.arrays import F32
from harness.reference.model.state import Snapshot
from harness.reference.scheduler.sequence import Sequence


class CacheKeeper:
    """Stores latents of full blocks and states at the policy's marks."""

    def __init__(self, cache: PrefixCache, state_io: StateIO, block_size: int) -> None:
        self.cache = cache
        self.state_io = state_io
        self.block_size = block_size

    @property
    def policy(self) -> SnapshotPolicy:
        """Where states are kept."""
        return self.cache.policy

    def store_blocks(self, sequence: Sequence) -> None:
        """Offers the latents of every block that has become full."""
        full = sequence.computed // self.block_size
        if full <= sequence.stored_blocks:
            return
        keys = self.cache.hasher.chain(sequence.tokens, sequence.request.cache_salt, sequence.keys)
        for block in range(sequence.stored_blocks, full):
            start = block * self.block_size
            if self.cache.holds_on_device(Kind.LATENT, keys[block]):
                continue
            entry = self.state_io.save_latents(sequence.slot, start, start + self.block_size)
            if self.cache.store(Kind.LATENT, keys[block], entry):
                sequence.created_tokens += self.block_size
        sequence.stored_blocks = full
        self.cache.touch(keys[:full])

    def store_state(self, sequence: Sequence, position: int) -> None:
        """Offers the state of a sequence whose slot holds exactly ``position`` tokens, a block boundary."""
        key = self._state_key(sequence, position)
        if key is not None:
            self.cache.store(Kind.STATE, key, self.state_io.save_snapshot(sequence.slot))

    def store_hidden(self, sequence: Sequence, position: int, hidden: F32) -> None:
        """Offers the state of a model without recurrent layers, which is the hidden vector of the last token."""
        key = self._state_key(sequence, position)
        if key is not None:
            entry: Snapshot = self.state_io.state_from_hidden(sequence.slot, hidden, position)
            self.cache.store(Kind.STATE, key, entry)

    def _state_key(self, sequence: Sequence, position: int) -> bytes | None:
        """The key to store a state under, None when there is one already."""
        keys = self.cache.hasher.chain(sequence.tokens, sequence.request.cache_salt, sequence.keys)
        key = keys[position // self.block_size - 1]
        return None if self.cache.holds_on_device(Kind.STATE, key) else key
