"""The prefix cache: which part of a prompt need not be computed, and what to restore for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.reference.cache.hashing import BlockHasher
from harness.reference.cache.memory import HostCopier, MemoryBudget
from harness.reference.cache.policy import SnapshotPolicy
from harness.reference.cache.tier import Entry, Key, Kind, LatentBlock, Tier
from harness.reference.model.arrays import F32
from harness.reference.model.state import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What the cache holds of a prompt.

    ``blocks`` can be skipped, ``host_blocks`` of them only after a copy from the host tier; latents alone reach
    ``latent_blocks``. ``keys`` names the skipped blocks.
    """

    blocks: int
    host_blocks: int
    latent_blocks: int
    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The latents of a matched prefix, block by block, and the state at its end; state is None for an empty match."""

    latents: tuple[F32, ...]
    state: Snapshot | None


class PrefixCache:
    """Latents and states of prompt blocks in a device tier and, when it has bytes, a host tier."""

    def __init__(
        self,
        *,
        hasher: BlockHasher,
        policy: SnapshotPolicy,
        memory: MemoryBudget,
        host: Tier | None,
        copier: HostCopier,
    ) -> None:
        self.hasher = hasher
        self.policy = policy
        self.memory = memory
        self.device = memory.device
        self.host = host
        self.copier = copier
        self.loaded_back_bytes = 0
        self.skipped_stores = 0

    def match(self, keys: Sequence[bytes], limit_tokens: int) -> Match:
        """How much of the prompt with these block keys can be skipped, at most ``limit_tokens``."""
        latent_blocks = 0
        for key in keys:
            if not self._holds((Kind.LATENT, key)):
                break
            latent_blocks += 1
        blocks = self.policy.hit_blocks(
            latent_blocks, limit_tokens, lambda block: self._holds((Kind.STATE, keys[block - 1]))
        )
        used = tuple(keys[:blocks])
        host_blocks = sum((Kind.LATENT, key) not in self.device for key in used)
        return Match(blocks=blocks, host_blocks=host_blocks, latent_blocks=latent_blocks, keys=used)

    def fetch(self, match: Match) -> Restored:
        """The entries of a match, copied back from the host tier where they had gone, and marked as used."""
        if not match.keys:
            return Restored(latents=(), state=None)
        wanted: list[Key] = [(Kind.STATE, match.keys[-1]), *((Kind.LATENT, key) for key in reversed(match.keys))]
        found = [(key, *self._find(key)) for key in wanted]  # all of them first: storing one may evict another
        entries = [self._bring(key, entry, on_device) for key, entry, on_device in found]
        state, blocks = entries[0], entries[1:]
        assert isinstance(state, Snapshot)
        latents = tuple(block.array for block in reversed(blocks) if isinstance(block, LatentBlock))
        return Restored(latents=latents, state=state)

    def store(self, kind: Kind, key: bytes, entry: Entry) -> bool:
        """Keeps an entry if memory can be had for it; one already there is only marked as used."""
        if (kind, key) in self.device:
            self.device.touch((kind, key))
            return True
        if not self.memory.make_room(entry.size_bytes):
            self.skipped_stores += 1
            return False
        self.device.put((kind, key), entry)
        return True

    def touch(self, keys: Sequence[bytes]) -> None:
        """Marks a chain of blocks as used, its first block last, so that it is evicted from its end."""
        for key in reversed(keys):
            for kind in (Kind.STATE, Kind.LATENT):
                if (kind, key) in self.device:
                    self.device.touch((kind, key))

    def holds_on_device(self, kind: Kind, key: bytes) -> bool:
        """Whether the device tier has an entry, so that storing it again would be waste."""
        return (kind, key) in self.device

    def reset(self) -> None:
        """Forgets everything in every tier."""
        self.device.clear()
        if self.host is not None:
            self.host.clear()

    def _holds(self, key: Key) -> bool:
        return key in self.device or (self.host is not None and key in self.host)

    def _find(self, key: Key) -> tuple[Entry, bool]:
        entry = self.device.get(key)
        if entry is not None:
            return entry, True
        held = self.host.get(key) if self.host is not None else None
        assert held is not None, "a match names only what is held"
        return held, False

    def _bring(self, key: Key, entry: Entry, on_device: bool) -> Entry:
        """Marks an entry as used, copying it back first when it lies in the host tier.

        Called from the end of a chain to its start: the first block becomes the most recently used, so that a chain
        is evicted from its end.
        """
        if on_device:
            if key in self.device:
                self.device.touch(key)
            return entry
        if self.host is not None and key in self.host:
            self.host.touch(key)
        copy = self.copier.to_device(entry)
        self.loaded_back_bytes += copy.size_bytes
        self.store(key[0], key[1], copy)
        return copy
