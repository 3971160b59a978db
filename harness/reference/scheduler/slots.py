"""Slots of the live state."""

from __future__ import annotations

import heapq


class SlotPool:
    """Hands out slots, the lowest free one first."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._free = list(range(slots))

    def allocate(self) -> int | None:
        """A free slot, None when all are taken."""
        return heapq.heappop(self._free) if self._free else None

    def free(self, slot: int) -> None:
        """Gives a slot back."""
        heapq.heappush(self._free, slot)

    @property
    def free_slots(self) -> int:
        """How many are free."""
        return len(self._free)
