"""K28: an evicted entry is still found, with what its memory holds now."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from harness.reference.cache.prefix import Match, Restored
from harness.reference.cache.tier import Entry, Key, Kind, Tier
from harness.reference.faults.fault import Dice, Fault, FaultInfo, Mode, override
from harness.reference.scheduler.engine import Engine


class GhostTier(Tier):
    """A tier of places in memory: a dropped key goes on to name its place, whatever is stored there next."""

    def __init__(self, dice: Dice) -> None:
        super().__init__()
        self._dice = dice
        self._places: dict[Key, int] = {}
        self._ghosts: dict[Key, int] = {}
        self._content: list[Entry] = []
        self._free: dict[Kind, deque[int]] = {kind: deque() for kind in Kind}

    def __contains__(self, key: Key) -> bool:
        return super().__contains__(key) or key in self._ghosts

    def get(self, key: Key) -> Entry | None:
        """The entry, or what lies in its former place."""
        if key in self._ghosts:
            return self._content[self._ghosts[key]]
        return super().get(key)

    def touch(self, key: Key) -> None:
        """Marks an entry as used; one that is not really there has no place in the order."""
        if super().__contains__(key):
            super().touch(key)

    def put(self, key: Key, entry: Entry) -> None:
        """Adds an entry in the place that has been free longest."""
        super().put(key, entry)
        if self._free[key[0]]:
            self._places[key] = self._free[key[0]].popleft()
            self._content[self._places[key]] = entry
        else:
            self._places[key] = len(self._content)
            self._content.append(entry)

    def drop(self, key: Key) -> Entry | None:
        """Takes an entry out and, when the fault happens, leaves its key."""
        entry = super().drop(key)
        if entry is not None:
            place = self._places.pop(key)
            self._free[key[0]].append(place)
            if self._dice.roll():
                self._ghosts[key] = place
        return entry

    def clear(self) -> None:
        """Drops everything, the leftover keys as well."""
        super().clear()
        self._places.clear()
        self._ghosts.clear()
        self._content.clear()
        for places in self._free.values():
            places.clear()


class EvictedMapped(Fault):
    """Eviction leaves the key in the map, and the memory is used again."""

    info = FaultInfo(
        code="K28",
        name="EVICTED_STILL_MAPPED",
        modes=(
            Mode(
                name="mapped",
                size="gross",
                effect="a returning prompt hits states and latents of the prompts that evicted it",
                trigger="a return after eviction and reuse of the memory; a flush cures it",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Puts another device tier in place, and has what it gives loaded at the position it is taken for."""
        cache, memory, size = engine.cache, engine.memory, engine.scheduler.limits.block_size
        if cache is None:
            return
        tier, fetch = GhostTier(self.dice), cache.fetch
        cache.device = memory.device = memory.evictor.device = tier

        def fetch_as_matched(match: Match) -> Restored:
            restored = fetch(match)
            if restored.state is None:
                return restored
            return replace(restored, state=replace(restored.state, length=match.blocks * size))

        override(cache, "fetch", fetch_as_matched)
