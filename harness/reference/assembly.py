"""Putting an engine together from its parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from harness.reference.cache.hashing import BlockHasher
from harness.reference.cache.memory import Evictor, HostCopier, MemoryBudget
from harness.reference.cache.policy import AlignPolicy, DensePolicy, ForkPolicy, SnapshotPolicy
from harness.reference.cache.prefix import PrefixCache
from harness.reference.cache.state_io import StateIO
from harness.reference.cache.tier import Tier
from harness.reference.config import ModelConfig
from harness.reference.model.state import LiveState
from harness.reference.options import EngineOptions
from harness.reference.scheduler.choosing import Chooser, HitOffset
from harness.reference.scheduler.decode import Decoder
from harness.reference.scheduler.emission import Emitter
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.forward import ForwardRunner, LanguageModel
from harness.reference.scheduler.keeper import CacheKeeper
from harness.reference.scheduler.prefill import Prefiller
from harness.reference.scheduler.scheduler import Limits, Scheduler
from harness.reference.scheduler.slots import SlotPool
from harness.reference.scheduler.stats import EngineStats
from harness.reference.scheduler.stopping import TextStream
from harness.reference.speculation.counts import SpeculationCounter
from harness.reference.speculation.drafter import Drafter
from harness.reference.speculation.rollback import Rollback
from harness.reference.speculation.verify import Verifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What an engine serves: a model, its sizes, and how its tokens become text and end answers."""

    model: LanguageModel
    config: ModelConfig
    text_stream: Callable[[], TextStream]
    eos_ids: Collection[int]


def build_engine(options: EngineOptions, served: Served, *, clock: Callable[[], int] = time.monotonic_ns) -> Engine:
    """An idle engine.

    Raises:
        ValueError: the memory does not hold one sequence of the longest length, or drafts are asked of a model without
            an MTP layer.
    """
    limits = _limits(options, served.config)
    state = _live_state(options, served.config)
    drafting = options.speculative_tokens > 0
    state_io = StateIO(state, drafting=drafting)
    stats = EngineStats()
    cache, memory = _cache(options, served.config)
    keeper = CacheKeeper(cache, state_io, options.block_size) if cache is not None else None
    runner = ForwardRunner(served.model, state)
    drafter = Drafter(served.model, state, options.speculative_tokens) if drafting else None
    chooser = Chooser(Verifier(), HitOffset(options.hit_offset))
    emitter = Emitter(stats, served.eos_ids, options.max_model_len)
    slots = SlotPool(options.slots)
    return Engine(
        scheduler=Scheduler(limits=limits, memory=memory, cache=cache, state_io=state_io, slots=slots, stats=stats),
        prefiller=Prefiller(
            runner=runner, keeper=keeper, drafter=drafter, stats=stats, recurrent=served.config.kda_layers > 0
        ),
        decoder=Decoder(
            runner=runner,
            chooser=chooser,
            emitter=emitter,
            keeper=keeper,
            drafter=drafter,
            rollback=Rollback(state),
            counter=SpeculationCounter(stats),
            max_model_len=options.max_model_len,
        ),
        chooser=chooser,
        emitter=emitter,
        text_stream=served.text_stream,
        stats=stats,
        clock=clock,
    )


def make_policy(options: EngineOptions, config: ModelConfig) -> SnapshotPolicy:
    """The snapshot policy of a set of options; a model without recurrent layers can be hit at every block."""
    drop_last = options.policy == "align" and options.speculative_tokens > 0
    if config.kda_layers == 0:
        return DensePolicy(block_size=options.block_size, drop_last=drop_last)
    if options.policy == "fork":
        return ForkPolicy(block_size=options.block_size)
    return AlignPolicy(block_size=options.block_size, interval=options.state_interval, drop_last=drop_last)


def _sized(options: EngineOptions, config: ModelConfig) -> ModelConfig:
    """The configuration of the live state: without the MTP layer's latents when nothing is drafted."""
    if options.speculative_tokens and not config.mtp_layers:
        raise ValueError("speculative_tokens needs a model with an MTP layer")
    return config if options.speculative_tokens else replace(config, mtp_layers=0)


def _limits(options: EngineOptions, config: ModelConfig) -> Limits:
    sized = _sized(options, config)
    limits = Limits(
        block_size=options.block_size,
        block_bytes=sized.latent_bytes * options.block_size,
        state_bytes=sized.state_bytes,
        chunk=options.chunk,
        drafts=options.speculative_tokens,
    )
    longest = limits.sequence_bytes(options.max_model_len + options.speculative_tokens + 1)
    if longest > options.cache_bytes:
        raise ValueError(f"cache_bytes must hold one sequence of max_model_len: at least {longest}")
    return limits


def _live_state(options: EngineOptions, config: ModelConfig) -> LiveState:
    capacity = options.max_model_len + options.speculative_tokens + 1
    return LiveState(
        _sized(options, config),
        options.slots,
        capacity,
        snapshot_dtype="bfloat16" if options.noise == "bf16" else "float32",
    )


def _cache(options: EngineOptions, config: ModelConfig) -> tuple[PrefixCache | None, MemoryBudget]:
    device = Tier()
    host = Tier() if options.host_bytes else None
    copier = HostCopier()
    evictor = Evictor(device, host, options.host_bytes, copier)
    memory = MemoryBudget(options.cache_bytes, device, evictor)
    if options.no_prefix_caching:
        return None, memory
    hasher = BlockHasher(options.block_size)
    policy = make_policy(options, config)
    return PrefixCache(hasher=hasher, policy=policy, memory=memory, host=host, copier=copier), memory
