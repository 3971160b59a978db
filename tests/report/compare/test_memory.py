"""Memory of both sides: the arithmetic, the gauge, and the length at which they are level."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.cli.memory import named_model
from harness.memory.sequence import KvDtype, Setting
from harness.report.compare.memory import HeldMemory, MemoryModelOf, break_even, held_memory, least_absolute
from tests.report.compare.build import side, write_side


def arithmetic(letter: str, name: str, dtype: KvDtype = KvDtype.FP32) -> MemoryModelOf:
    return MemoryModelOf(letter=letter, shape=named_model(name)[0].shape, setting=Setting(kv_dtype=dtype), source=name)


def test_level_length_of_the_embedded_models() -> None:
    level = break_even(arithmetic("A", "ling-mini"), arithmetic("B", "ling-mini-attention"))
    assert level.tokens == pytest.approx(186_880 / (2_688 - 448))
    assert level.text == "level at 83 tokens, A takes less beyond"


def test_a_side_that_takes_less_throughout_is_named() -> None:
    lean = HeldMemory(letter="A", fixed_bytes=10.0, token_bytes=1.0, samples=9, fit_error=0.0)
    heavy = HeldMemory(letter="B", fixed_bytes=20.0, token_bytes=2.0, samples=9, fit_error=0.0)
    assert break_even(lean, heavy).text == "A takes less at every length"
    assert break_even(heavy, lean).text == "A takes less at every length"
    assert break_even(lean, heavy).tokens is None


def test_the_gauge_is_fitted_back_to_what_a_sequence_and_a_token_hold(tmp_path: Path) -> None:
    path = write_side(tmp_path, "aaaaaa", contexts=(512, 4_096), gauge_bytes=(186_880.0, 448.0))
    held = held_memory(side(path))
    assert held is not None
    assert (held.fixed_bytes, held.token_bytes) == (pytest.approx(186_880, rel=1e-6), pytest.approx(448, rel=1e-6))


def test_moments_at_a_blocks_edge_do_not_pull_the_fit() -> None:
    known = np.array([[1.0, 64.0 * blocks] for blocks in range(10, 30)])
    wanted = known @ np.array([1_000.0, 3.0])
    wanted[[3, 11, 17]] += 64 * 3.0
    assert least_absolute(known, wanted) == pytest.approx([1_000.0, 3.0])


def test_without_a_gauge_nothing_is_measured(tmp_path: Path) -> None:
    assert held_memory(side(write_side(tmp_path, "aaaaaa"))) is None
