"""Cells do not warm each other: the order of levels changes nothing that is compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

from harness.store import RunFolder, read_cell
from tests.e2e.commands import cells, engine, sweep

BLOCKS = 8
LEVELS = (1, 8, 32)


def throughput_interval(run: RunFolder, level: int) -> tuple[float, float]:
    """Output tokens per second over BLOCKS equal parts of the window: the 99% interval of the mean."""
    history = read_cell(run, f"agent-c{level:04d}")
    assert history.info is not None and history.info.window_start_ns is not None
    assert history.info.window_end_ns is not None
    times = [record.event_times_ns for record in history.records if record.event_times_ns is not None]
    window = (history.info.window_start_ns, history.info.window_end_ns)
    counts, edges = np.histogram(np.concatenate(times), bins=BLOCKS, range=window)
    rates = counts / np.diff(edges) * 1e9
    error = t.ppf(0.995, BLOCKS - 1) * rates.std(ddof=1) / np.sqrt(BLOCKS)
    return float(rates.mean() - error), float(rates.mean() + error)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Run folders of one server swept upwards, then downwards."""
    folder = tmp_path_factory.mktemp("order")
    with engine() as url:
        return sweep(url, "1,8,32", folder), sweep(url, "32,8,1", folder)


@pytest.mark.slow
def test_ascending_and_descending_levels_ask_and_hit_the_same(runs: tuple[Path, Path]) -> None:
    up, down = cells(runs[0]), cells(runs[1])
    for level in LEVELS:
        assert abs(float(str(up[level]["cached_share"])) - float(str(down[level]["cached_share"]))) <= 0.02
        for name in ("p50_input_tokens", "p90_input_tokens"):
            assert up[level][name] == pytest.approx(down[level][name], rel=0.05)


@pytest.mark.quiet
def test_throughput_does_not_depend_on_the_order(runs: tuple[Path, Path]) -> None:
    with RunFolder.open(runs[0]) as up, RunFolder.open(runs[1]) as down:
        for level in LEVELS:
            low, high = zip(throughput_interval(up, level), throughput_interval(down, level), strict=True)
            assert max(low) <= min(high), f"throughput at {level} depends on the order"
