"""K09: attention and recurrent layers resume from different positions."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import replace

import numpy as np

from harness.reference.cache.prefix import Match, PrefixCache, Restored
from harness.reference.cache.tier import Entry, Kind, LatentBlock
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.model.arrays import F32
from harness.reference.model.state import Snapshot
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.sequence import Sequence


class GroupDivergence(Fault):
    """The two kinds of layers report hits of different length, and one of them is believed for both."""

    info = FaultInfo(
        code="K09",
        name="GROUP_HIT_DIVERGENCE",
        modes=(
            Mode(
                name="double",
                size="medium",
                effect="one matched block is dropped without rewinding the state, and is applied twice",
                trigger="any hit",
            ),
            Mode(
                name="mtp",
                size="medium",
                effect="as double",
                trigger="any hit with speculative decoding on",
            ),
            Mode(
                name="gap",
                size="medium",
                effect="the longer hit of the latents is taken, with the older state",
                trigger="a prefix whose latents are cached deeper than its state: forks below the last state",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides restoring, or for ``gap`` matching and fetching."""
        if self.mode == "gap":
            self._plant_gap(engine)
        elif self.mode == "double" or engine.prefiller.drafter is not None:
            self._plant_double(engine)

    def _plant_double(self, engine: Engine) -> None:
        scheduler = engine.scheduler
        restore, size = scheduler.restore, scheduler.limits.block_size

        def restore_without_rewind(sequence: Sequence) -> Match | None:
            match = restore(sequence)
            if match is None or match.blocks == 0 or not self.dice.roll():
                return match
            sequence.computed -= size
            sequence.stored_blocks -= 1
            scheduler.state_io.state.length[sequence.slot] -= size
            return replace(match, blocks=match.blocks - 1)

        override(scheduler, "restore", restore_without_rewind)

    def _plant_gap(self, engine: Engine) -> None:
        cache, state = engine.cache, engine.scheduler.state_io.state
        if cache is None:
            return
        match_keys, fetch_match, size = cache.match, cache.fetch, engine.scheduler.limits.block_size
        honest: dict[tuple[bytes, ...], Match] = {}

        def match(keys: Items[bytes], limit_tokens: int) -> Match:
            found = match_keys(keys, limit_tokens)
            reach = min(found.latent_blocks, limit_tokens // size)
            if reach <= found.blocks or not self.dice.roll():
                return found
            longest = replace(found, blocks=reach, keys=tuple(keys[:reach]))
            honest[longest.keys] = found
            return longest

        def fetch(match: Match) -> Restored:
            found = honest.pop(match.keys, None)
            if found is None:
                return fetch_match(match)
            deeper = tuple(_latents(cache, key) for key in match.keys[found.blocks :])
            restored = fetch_match(found)
            older = restored.state or Snapshot(
                recurrent=np.zeros_like(state.recurrent[:, 0]),
                conv=np.zeros_like(state.conv[:, 0]),
                hidden=np.zeros_like(state.hidden[0]),
                length=0,
            )
            return Restored(latents=restored.latents + deeper, state=replace(older, length=match.blocks * size))

        override(cache, "match", match)
        override(cache, "fetch", fetch)


def _latents(cache: PrefixCache, key: bytes) -> F32:
    entry: Entry | None = cache.device.get((Kind.LATENT, key))
    if entry is None and cache.host is not None:
        entry = cache.host.get((Kind.LATENT, key))
    assert isinstance(entry, LatentBlock), "the match reaches as far as the latents"
    return entry.array
