"""Speed of the embedded engine's arithmetic on one core: prefill, decode steps, drafts, and a decode step's profile.

``OPENBLAS_NUM_THREADS=1 python benchmarks/engine_speed.py [--arch attention] [--mode deterministic] [--profile]``
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable

import numpy as np

from harness.reference.model.arithmetic import ARITHMETIC
from harness.reference.model.model import Model
from harness.reference.model.state import LiveState
from harness.reference.weights.shipped import load


def fastest_s(run: Callable[[], object], times: int) -> float:
    """CPU seconds of the fastest of several runs: on one BLAS thread, the time it takes on an idle core."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def prefill_rate(model: Model, length: int) -> float:
    """Prompt tokens per second of one prompt."""
    prompt = np.random.default_rng(0).integers(0, model.config.vocab_size, length)
    state = LiveState(model.config, 1, length)

    def run() -> None:
        state.clear(0)
        model.prefill(state, 0, prompt)

    return length / fastest_s(run, 4)


def filled(model: Model, batch: int, length: int) -> LiveState:
    """A state of several sequences that already hold ``length`` tokens."""
    state = LiveState(model.config, batch, length + 1024)
    prompt = np.random.default_rng(1).integers(0, model.config.vocab_size, length)
    model.prefill(state, 0, prompt)
    for slot in range(1, batch):
        state.restore(slot, state.snapshot(0))
        state.write_latent(slot, 0, state.read_latent(0, 0, length))
    return state


def step_ms(model: Model, batch: int, length: int, width: int = 1) -> float:
    """Milliseconds of one decode step with logits; ``width`` above 1 verifies drafts."""
    state = filled(model, batch, length)
    slots, tokens = np.arange(batch), np.full((batch, width), 9)

    def run() -> None:
        hidden = model.verify(state, slots, tokens)[0] if width > 1 else model.step(state, slots, tokens)
        model.logits(hidden)
        state.length[:] = length

    return fastest_s(run, 30) * 1e3


def draft_ms(model: Model, batch: int, length: int) -> float:
    """Milliseconds of drafting one token for each sequence."""
    state = filled(model, batch, length)
    slots, tokens, positions = np.arange(batch), np.full(batch, 9), np.full(batch, length - 1)
    return fastest_s(lambda: model.draft_step(state, slots, tokens, state.hidden, positions), 30) * 1e3


def print_profile(model: Model) -> None:
    """The costliest functions of 300 decode steps, batch 8 at 2,048 tokens."""
    state = filled(model, 8, 2048)
    slots, tokens = np.arange(8), np.full((8, 1), 9)
    profile = cProfile.Profile(time.process_time)
    profile.enable()
    for _ in range(300):
        model.logits(model.step(state, slots, tokens))
        state.length[:] = 2048
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(22)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", choices=("hybrid", "attention"), default="hybrid")
    parser.add_argument("--mode", choices=tuple(ARITHMETIC), default="default")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    config, weights = load(options.arch)
    model = Model(config, weights, mode=options.mode)
    if options.profile:
        print_profile(model)
        return
    for length in (2048, 8192):
        print(f"prefill {length}: {prefill_rate(model, length):.0f} tokens/s")
    for batch in (1, 8, 32):
        print(f"step, batch {batch} at 2048: {step_ms(model, batch, 2048):.2f} ms")
    print(f"verify 3 drafts, batch 8 at 2048: {step_ms(model, 8, 2048, 4):.2f} ms")
    print(f"draft, batch 8 at 2048: {draft_ms(model, 8, 2048):.2f} ms")


if __name__ == "__main__":
    main()
