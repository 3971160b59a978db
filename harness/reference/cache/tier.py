"""One tier of cache memory: latents and states by block key, the least recently used first to go."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum

from harness.reference.model.arrays import F32
from harness.reference.model.state import Snapshot


class Kind(Enum):
    """What a cache entry holds."""

    LATENT = "latent"
    STATE = "state"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentBlock:
    """Latents of one block: ``[latent_layers, block_size, latent_dim]``.

    The MTP layer's rows, when there are any, lie one token earlier than the block (row ``i`` belongs to token
    ``start + i - 1``): such a row depends on the token after its own, and so every row is a function of the tokens that
    the block's key covers.
    """

    array: F32

    @property
    def size_bytes(self) -> int:
        """Bytes of the array."""
        return self.array.nbytes


Entry = LatentBlock | Snapshot
Key = tuple[Kind, bytes]


class Tier:
    """Entries in order of use, the bytes they take, and how many there are of each kind."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Key, Entry] = OrderedDict()
        self.size_bytes = 0
        self.counts = dict.fromkeys(Kind, 0)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def get(self, key: Key) -> Entry | None:
        """The entry, or None; its place in the order of use stays as it is."""
        return self._entries.get(key)

    def touch(self, key: Key) -> None:
        """Marks an entry as the most recently used."""
        self._entries.move_to_end(key)

    def put(self, key: Key, entry: Entry) -> None:
        """Adds an entry as the most recently used; one already there is replaced."""
        self.drop(key)
        self._entries[key] = entry
        self.size_bytes += entry.size_bytes
        self.counts[key[0]] += 1

    def drop(self, key: Key) -> Entry | None:
        """Takes an entry out; None when it is not there."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.size_bytes -= entry.size_bytes
            self.counts[key[0]] -= 1
        return entry

    def oldest(self) -> Key | None:
        """The least recently used key, None when the tier is empty."""
        return next(iter(self._entries), None)

    def clear(self) -> None:
        """Drops everything."""
        self._entries.clear()
        self.size_bytes = 0
        self.counts = dict.fromkeys(Kind, 0)
