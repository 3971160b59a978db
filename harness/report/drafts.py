"""What the server's counters say of the drafts of a cell."""

from __future__ import annotations

from harness.endpoint.counters import COUNTER_NAMES, engine_of_counters, total
from harness.records import CellInfo, CounterSample
from harness.stats.drafts import Drafts, counted_drafts


def counted_in_cell(info: CellInfo | None) -> Drafts | None:
    """From the last sample before the measured requests to the last of all; None unless two samples show drafts."""
    if info is None or len(info.counters) < 2:
        return None
    samples = sorted(info.counters, key=lambda sample: sample.at_ns)
    start_ns = info.window_start_ns
    before = [sample for sample in samples if start_ns is not None and sample.at_ns <= start_ns]
    first = before[-1] if before else samples[0]
    return counted_drafts(_by_meaning(first), _by_meaning(samples[-1]), answers=info.ok)


def _by_meaning(sample: CounterSample) -> dict[str, float]:
    engine = engine_of_counters(sample.values)
    if engine is None or engine not in COUNTER_NAMES:
        return {}
    found = {meaning: total(sample, engine, meaning) for meaning in COUNTER_NAMES[engine]}
    return {meaning: value for meaning, value in found.items() if value is not None}
