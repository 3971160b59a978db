"""What a server can say about an engine without stopping it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.reference.cache.tier import Kind
from harness.reference.options import EngineOptions
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.stats import EngineStats


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineView:
    """Gauges of one engine at one moment, and its running counters; ``index`` is its place among the replicas.

    ``memory_share`` is held by sequences and cache together, ``running_share`` by running sequences alone (0 to 1).
    """

    index: int
    options: EngineOptions
    stats: EngineStats
    running: int
    waiting: int
    memory_share: float
    running_share: float
    capacity_tokens: int
    block_bytes: int
    state_bytes: int
    cached_blocks: int
    cached_states: int
    host_bytes: int
    host_states: int
    evicted_entries: int
    offloaded_bytes: int
    loaded_back_bytes: int
    skipped_stores: int


def view_of(engine: Engine, options: EngineOptions, index: int) -> EngineView:
    """Reads plain numbers only, which is safe beside the engine's thread."""
    memory, cache, limits = engine.memory, engine.cache, engine.scheduler.limits
    host = cache.host if cache is not None else None
    return EngineView(
        index=index,
        options=options,
        stats=engine.stats,
        running=len(engine.scheduler.running),
        waiting=len(engine.scheduler.waiting),
        memory_share=memory.used_bytes / memory.capacity_bytes,
        running_share=memory.held_bytes / memory.capacity_bytes,
        capacity_tokens=memory.capacity_bytes * limits.block_size // limits.block_bytes,
        block_bytes=limits.block_bytes,
        state_bytes=limits.state_bytes,
        cached_blocks=memory.device.counts[Kind.LATENT],
        cached_states=memory.device.counts[Kind.STATE],
        host_bytes=host.size_bytes if host is not None else 0,
        host_states=host.counts[Kind.STATE] if host is not None else 0,
        evicted_entries=memory.evictor.evicted_entries,
        offloaded_bytes=memory.evictor.offloaded_bytes,
        loaded_back_bytes=cache.loaded_back_bytes if cache is not None else 0,
        skipped_stores=cache.skipped_stores if cache is not None else 0,
    )
