"""What later requests find in the cache: repeats, forks, turns, drafts, tiers."""

from __future__ import annotations

import numpy as np
import pytest

from harness.reference.scheduler.engine import Engine
from tests.reference.driving import VOCAB, ask, drive, tiny_engine, tiny_options

RNG = np.random.default_rng(1)
STEM = [int(token) for token in RNG.integers(1, VOCAB, 200)]


def cached(engine: Engine, prompt: list[int], name: str, **sampling: object) -> int:
    usage = drive(engine, [ask(name, prompt, **({"max_tokens": 1} | sampling))])[name].usage
    assert usage is not None
    return usage.cached_tokens


@pytest.mark.parametrize(("drafts", "expected"), [(0, [0, 96, 96]), (2, [0, 88, 88])])
def test_align_repeats_hit_the_last_boundary_and_drafting_costs_a_block(drafts: int, expected: list[int]) -> None:
    engine = tiny_engine(tiny_options(speculative_tokens=drafts))
    assert [cached(engine, STEM[:100], f"r{i}") for i in range(3)] == expected


def test_fork_hits_a_shared_prefix_in_full_at_the_third_sighting() -> None:
    options = tiny_options(policy="fork", chunk=96)
    engine = tiny_engine(options)
    tails = [[int(t) for t in RNG.integers(1, VOCAB, 50)] for _ in range(3)]
    seen = [cached(engine, STEM[:66] + tail, f"r{i}") for i, tail in enumerate(tails)]
    assert seen == [0, 0, 64]


def test_a_next_turn_hits_what_the_last_one_generated() -> None:
    engine = tiny_engine()
    answer = drive(engine, [ask("first", STEM[:50], max_tokens=40)])["first"]
    grown = STEM[:50] + answer.tokens + STEM[150:155]
    assert cached(engine, grown, "second") == (50 + 39) // 8 * 8


def test_fork_keeps_few_states_while_decoding() -> None:
    engine = tiny_engine(tiny_options(policy="fork"))
    answer = drive(engine, [ask("first", STEM[:50], max_tokens=40)])["first"]
    assert cached(engine, STEM[:50] + answer.tokens, "second") == 48


def test_prompts_below_a_block_never_hit() -> None:
    engine = tiny_engine()
    assert [cached(engine, STEM[:7], f"r{i}") for i in range(3)] == [0, 0, 0]


def test_a_pure_attention_model_hits_every_block_whatever_the_policy() -> None:
    for policy in ("align", "fork"):
        engine = tiny_engine(tiny_options(arch="attention", policy=policy))
        cached(engine, STEM[:100], "a")
        assert cached(engine, [*STEM[:61], 1, 2, 3], "b") == 56


def test_flooded_prefixes_come_back_from_the_host_tier_only_if_there_is_one() -> None:
    for host_bytes, expected in ((0, 0), (1 << 20, 96)):
        engine = tiny_engine(tiny_options(max_model_len=128, cache_bytes=60_000, host_bytes=host_bytes))
        cached(engine, STEM[:100], "sentinel")
        for i in range(6):
            cached(engine, [int(t) for t in RNG.integers(1, VOCAB, 100)], f"flood{i}")
        assert cached(engine, STEM[:100], "again") == expected
        assert engine.stats.host_tokens == expected


def test_a_cache_that_is_off_computes_everything() -> None:
    engine = tiny_engine(tiny_options(no_prefix_caching=True))
    assert [cached(engine, STEM[:100], f"r{i}") for i in range(2)] == [0, 0]
    assert engine.stats.prefilled_tokens == 200


def test_a_reset_forgets_and_a_forced_one_restarts_what_runs() -> None:
    engine = tiny_engine()
    cached(engine, STEM[:100], "a")
    assert engine.reset_cache(force=False)
    assert cached(engine, STEM[:100], "b") == 0
    engine.submit(ask("long", STEM[:60], max_tokens=50))
    for _ in range(10):
        engine.step()
    assert not engine.reset_cache(force=False)
    assert engine.reset_cache(force=True)
    assert engine.stats.preemptions == 1
