"""Cells do not warm each other: the order of levels changes nothing that is compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

from harness.store import RunFolder, read_cell
from tests.e2e.commands import cells, engine, sweep

BLOCKS = 8


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


@pytest.mark.slow
def test_ascending_and_descending_levels_agree(tmp_path: Path) -> None:
    with engine() as url:
        up_path, down_path = sweep(url, "1,8,32", tmp_path), sweep(url, "32,8,1", tmp_path)
    up, down = cells(up_path), cells(down_path)
    with RunFolder.open(up_path) as first_run, RunFolder.open(down_path) as second_run:
        for level in (1, 8, 32):
            first, second = up[level], down[level]
            assert abs(float(str(first["cached_share"])) - float(str(second["cached_share"]))) <= 0.02
            for name in ("p50_input_tokens", "p90_input_tokens"):
                assert first[name] == pytest.approx(second[name], rel=0.05)
            low, high = zip(throughput_interval(first_run, level), throughput_interval(second_run, level), strict=True)
            assert max(low) <= min(high), f"throughput at {level} depends on the order"
