"""Block hashes, tiers, the byte budget, snapshot policies, and what a match restores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.reference.cache.hashing import BlockHasher
from harness.reference.cache.memory import Evictor, HostCopier, MemoryBudget
from harness.reference.cache.policy import AlignPolicy, DensePolicy, ForkPolicy, Span
from harness.reference.cache.prefix import PrefixCache
from harness.reference.cache.state_io import StateIO
from harness.reference.cache.tier import Kind, LatentBlock, Tier
from harness.reference.model.state import LiveState, Snapshot
from tests.reference.driving import tiny_config

BLOCK = 8
tokens_of = st.lists(st.integers(0, 511), min_size=0, max_size=40)


def latent(value: float = 0.0) -> LatentBlock:
    return LatentBlock(array=np.full((2, BLOCK, 4), value, np.float32))


def snapshot(length: int) -> Snapshot:
    empty = np.zeros((1, 2, 2, 2), np.float32)
    return Snapshot(recurrent=empty, conv=empty, hidden=np.full(4, length, np.float32), length=length)


def new_cache(capacity_bytes: int = 1 << 20, host_bytes: int = 0, policy: object | None = None) -> PrefixCache:
    device, host = Tier(), Tier() if host_bytes else None
    copier = HostCopier()
    memory = MemoryBudget(capacity_bytes, device, Evictor(device, host, host_bytes, copier))
    chosen = policy or AlignPolicy(block_size=BLOCK, interval=BLOCK, drop_last=False)
    return PrefixCache(hasher=BlockHasher(BLOCK), policy=chosen, memory=memory, host=host, copier=copier)  # type: ignore[arg-type]


def fill(cache: PrefixCache, tokens: list[int], states: tuple[int, ...], salt: str = "") -> list[bytes]:
    """Stores the latents of every full block, and states at some of their ends (block numbers from 1)."""
    keys = cache.hasher.chain(tokens, salt, [])
    for index, key in enumerate(keys):
        cache.store(Kind.LATENT, key, latent(index))
        if index + 1 in states:
            cache.store(Kind.STATE, key, snapshot((index + 1) * BLOCK))
    return keys


@given(tokens=tokens_of, more=tokens_of, cut=st.integers(0, 40))
def test_a_chain_grown_in_parts_is_the_chain_of_the_whole(tokens: list[int], more: list[int], cut: int) -> None:
    hasher = BlockHasher(BLOCK)
    grown = hasher.chain(tokens, "s", [])
    hasher.chain(tokens + more, "s", grown)
    assert grown == hasher.chain(tokens + more, "s", [])
    assert len(grown) == len(tokens + more) // BLOCK


def test_a_block_is_named_by_its_salt_its_tokens_and_all_before_it() -> None:
    hasher, tokens = BlockHasher(BLOCK), list(range(24))
    keys = hasher.chain(tokens, "", [])
    assert len(set(keys) | set(hasher.chain(tokens, "other", []))) == 6
    changed = hasher.chain([99, *tokens[1:]], "", [])
    assert not set(keys) & set(changed)
    assert hasher.chain(tokens[:16], "", []) == keys[:2]


def test_a_hit_needs_latents_from_the_start_and_a_state_at_its_end() -> None:
    cache, tokens = new_cache(), list(range(40))
    keys = fill(cache, tokens, states=(2, 4))
    assert cache.match(keys, 40).blocks == 4
    assert cache.match(keys, 31).blocks == 2
    assert cache.match(keys, 15).blocks == 0
    cache.device.drop((Kind.LATENT, keys[2]))
    match = cache.match(keys, 40)
    assert (match.blocks, match.latent_blocks) == (2, 2)
    cache.device.drop((Kind.LATENT, keys[0]))
    assert cache.match(keys, 40).blocks == 0


def test_what_is_fetched_is_what_was_stored() -> None:
    cache, tokens = new_cache(), list(range(32))
    keys = fill(cache, tokens, states=(3,))
    restored = cache.fetch(cache.match(keys, 32))
    assert restored.state is not None and restored.state.length == 24
    assert [block[0, 0, 0] for block in restored.latents] == [0, 1, 2]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.integers(0, 3000))
def test_used_bytes_never_exceed_the_budget(lengths: list[int], held: int) -> None:
    cache = new_cache(capacity_bytes=4000)
    assert cache.memory.hold(held)
    for seed, blocks in enumerate(lengths):
        fill(cache, [seed] * blocks * BLOCK, states=(blocks,))
        assert cache.memory.used_bytes <= 4000
        assert cache.memory.used_bytes == held + cache.device.size_bytes
    cache.memory.release(held)
    cache.reset()
    assert cache.memory.used_bytes == 0


def test_the_least_recently_used_chain_goes_first_and_from_its_end() -> None:
    cache = new_cache(capacity_bytes=6 * latent().size_bytes + 2 * snapshot(8).size_bytes)
    first = fill(cache, [1] * 24, states=(3,))
    second = fill(cache, [2] * 24, states=(3,))
    cache.touch(second)
    cache.touch(first)
    fill(cache, [3] * 8, states=())
    assert cache.match(first, 24).blocks == 3
    assert cache.match(second, 24).latent_blocks == 2


def test_evicted_entries_come_back_from_the_host_tier_as_copies() -> None:
    size = latent().size_bytes
    cache = new_cache(capacity_bytes=4 * size, host_bytes=100 * size)
    keys = fill(cache, list(range(24)), states=(3,))
    stored = cache.device.get((Kind.LATENT, keys[0]))
    fill(cache, [5] * 32, states=())
    match = cache.match(keys, 24)
    assert (match.blocks, match.host_blocks) == (3, 3)
    restored = cache.fetch(match)
    assert isinstance(stored, LatentBlock)
    assert np.array_equal(restored.latents[0], stored.array)
    assert restored.latents[0] is not stored.array
    assert cache.loaded_back_bytes > 0
    cache.reset()
    assert cache.match(keys, 24).blocks == 0


def test_a_host_tier_keeps_to_its_own_budget() -> None:
    size = latent().size_bytes
    cache = new_cache(capacity_bytes=2 * size, host_bytes=3 * size)
    for seed in range(9):
        fill(cache, [seed] * BLOCK, states=())
    assert cache.host is not None and cache.host.size_bytes <= 3 * size
    assert len(cache.host) == 3


@pytest.mark.parametrize("length", [1, 7, 8, 9, 16, 17, 63, 64, 65, 100])
@pytest.mark.parametrize("drop", [False, True])
def test_align_keeps_the_boundary_that_a_repeat_starts_from(length: int, drop: bool) -> None:
    """vLLM: floor((L - 1) / B) * B, or floor(L / B) * B - B when the last matched block is dropped."""
    policy = AlignPolicy(block_size=BLOCK, interval=10_000 // BLOCK * BLOCK, drop_last=drop)
    marks = policy.prefill_marks(Span(start=0, stop=length, target=length))
    expected = length // BLOCK * BLOCK - BLOCK if drop else (length - 1) // BLOCK * BLOCK
    assert marks == ([expected] if expected > 0 else [])
    hit = policy.hit_blocks(length // BLOCK, length - 1, lambda block: block * BLOCK in marks)
    assert hit * BLOCK == max(expected, 0)


def test_align_also_keeps_multiples_of_its_interval() -> None:
    policy = AlignPolicy(block_size=8, interval=32, drop_last=False)
    assert policy.prefill_marks(Span(start=24, stop=100, target=100)) == [32, 64, 96]
    assert [p for p in range(1, 30) if policy.decode_mark(p)] == [8, 16, 24]


def test_fork_keeps_one_state_a_chunk_and_the_fork_in_its_place() -> None:
    policy = ForkPolicy(block_size=8, decode_interval=24)
    assert policy.prefill_marks(Span(start=8, stop=101, target=101)) == [96]
    assert policy.prefill_marks(Span(start=8, stop=101, target=101, branch=40)) == [40]
    assert policy.prefill_marks(Span(start=48, stop=101, target=101, branch=40)) == [96]
    assert policy.prefill_marks(Span(start=96, stop=101, target=101)) == []
    assert [p for p in range(1, 60) if policy.decode_mark(p)] == [24, 48]


def test_dense_marks_every_block() -> None:
    policy = DensePolicy(block_size=8, drop_last=False)
    assert policy.prefill_marks(Span(start=8, stop=33, target=40)) == [16, 24, 32]


@pytest.mark.parametrize("drafting", [False, True])
def test_latents_and_state_survive_the_way_out_and_back(drafting: bool) -> None:
    config = tiny_config() if drafting else replace(tiny_config(), mtp_layers=0)
    state = LiveState(config, 2, 64)
    rng = np.random.default_rng(0)
    for array in (state.recurrent, state.conv, state.latent, state.hidden):
        array[:] = rng.standard_normal(array.shape)
    state.length[0] = 24
    io = StateIO(state, drafting=drafting)
    blocks = [io.save_latents(0, start, start + 8).array for start in (0, 8, 16)]
    kept = io.save_snapshot(0)
    io.clear(1)
    io.load_latents(1, blocks)
    io.load_snapshot(1, kept)
    assert state.length[1] == 24
    assert np.array_equal(state.recurrent[:, 1], state.recurrent[:, 0])
    assert np.array_equal(state.conv[:, 1], state.conv[:, 0])
    assert np.array_equal(state.hidden[1], state.hidden[0])
    main = slice(None, -1) if drafting else slice(None)
    assert np.array_equal(state.latent[main, 1, :24], state.latent[main, 0, :24])
    if drafting:
        assert np.array_equal(state.latent[-1, 1, :23], state.latent[-1, 0, :23])
