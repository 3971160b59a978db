"""The byte budget that running sequences and the prefix cache share, and eviction from it."""

from __future__ import annotations

from harness.reference.cache.tier import Entry, LatentBlock, Tier
from harness.reference.model.state import Snapshot


class HostCopier:
    """Moves entries between device and host memory, as copies."""

    def to_host(self, entry: Entry) -> Entry:
        """A copy for the host tier."""
        return self._copy(entry)

    def to_device(self, entry: Entry) -> Entry:
        """A copy for the device tier."""
        return self._copy(entry)

    def _copy(self, entry: Entry) -> Entry:
        if isinstance(entry, LatentBlock):
            return LatentBlock(array=entry.array.copy())
        return Snapshot(
            recurrent=entry.recurrent.copy(),
            conv=entry.conv.copy(),
            hidden=entry.hidden.copy(),
            length=entry.length,
        )


class Evictor:
    """Drops the least recently used entry of the device tier, into the host tier when there is one."""

    def __init__(self, device: Tier, host: Tier | None, host_bytes: int, copier: HostCopier) -> None:
        self.device = device
        self.host = host
        self.host_bytes = host_bytes
        self.copier = copier
        self.evicted_entries = 0
        self.offloaded_bytes = 0

    def evict_one(self) -> bool:
        """Frees the oldest entry; False when nothing is left to free."""
        key = self.device.oldest()
        if key is None:
            return False
        entry = self.device.drop(key)
        assert entry is not None
        self.evicted_entries += 1
        if self.host is not None and key not in self.host and entry.size_bytes <= self.host_bytes:
            self.host.put(key, self.copier.to_host(entry))
            self.offloaded_bytes += entry.size_bytes
            self._trim_host(self.host)
        return True

    def _trim_host(self, host: Tier) -> None:
        while host.size_bytes > self.host_bytes:
            oldest = host.oldest()
            assert oldest is not None
            host.drop(oldest)


class MemoryBudget:
    """Bytes that running sequences hold plus bytes of the device tier never exceed the capacity."""

    def __init__(self, capacity_bytes: int, device: Tier, evictor: Evictor) -> None:
        self.capacity_bytes = capacity_bytes
        self.device = device
        self.evictor = evictor
        self.held_bytes = 0

    @property
    def used_bytes(self) -> int:
        """Bytes of running sequences and cache entries."""
        return self.held_bytes + self.device.size_bytes

    def make_room(self, need_bytes: int) -> bool:
        """Evicts until ``need_bytes`` are free; False when they cannot be had."""
        if self.held_bytes + need_bytes > self.capacity_bytes:
            return False
        while self.used_bytes + need_bytes > self.capacity_bytes:
            if not self.evictor.evict_one():
                return False
        return True

    def hold(self, need_bytes: int) -> bool:
        """Takes bytes for a running sequence; False when they cannot be had."""
        if not self.make_room(need_bytes):
            return False
        self.held_bytes += need_bytes
        return True

    def release(self, held_bytes: int) -> None:
        """Gives back what a sequence held."""
        self.held_bytes -= held_bytes
