"""Cells do not warm each other: the order of levels changes nothing that is compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.commands import cells, engine, sweep


@pytest.mark.slow
def test_ascending_and_descending_levels_agree(tmp_path: Path) -> None:
    with engine() as url:
        up = cells(sweep(url, "1,8,32", tmp_path))
        down = cells(sweep(url, "32,8,1", tmp_path))
    for level in (1, 8, 32):
        first, second = up[level], down[level]
        assert abs(float(str(first["cached_share"])) - float(str(second["cached_share"]))) <= 0.02
        for name in ("input_tokens_p50", "input_tokens_p90"):
            assert first[name] == pytest.approx(second[name], rel=0.05)
