from __future__ import annotations

import numpy as np
import pytest

from harness.metrics.latency import all_itl_ms
from harness.records import Record
from harness.report.figures import ECDF_POINTS, _curve, _token_rates
from harness.store import CellHistory
from tests.metrics.build import answered, without_times


def history(records: list[Record]) -> CellHistory:
    return CellHistory(
        cell="c1",
        info=None,
        records=tuple(records),
        steps=(),
        counters=(),
        gap=(),
        torn_lines=0,
        unreadable_lines=0,
        unknown_lines=0,
        orphan_completes=0,
        lost_times=0,
        lossy_lines=0,
        unread_fields={},
    )


@pytest.mark.parametrize(("event_tokens", "tokens"), [(None, 6), ((2, 1, 1), 8)])
def test_the_tokens_of_all_bins_are_those_of_all_events_in_whatever_order(
    event_tokens: tuple[int, ...] | None, tokens: int
) -> None:
    late = answered("a", events_ms=(500, 700, 900), event_tokens=event_tokens)
    early = answered("b", events_ms=(100, 300, 1_200), event_tokens=event_tokens)
    found = _token_rates(history([late, early]))
    assert found is not None
    edges_s, per_s = found
    assert (per_s * np.diff(edges_s)).sum() == pytest.approx(tokens)
    assert edges_s[-1] == pytest.approx(1.2)


def test_a_cell_without_times_has_no_rates_and_an_empty_curve() -> None:
    silent = history([without_times(answered("a"))])
    assert _token_rates(silent) is None
    assert _curve(all_itl_ms, silent)[0] == 0


def test_a_curve_ends_at_the_largest_value_however_many_there_are() -> None:
    events_ms = np.cumsum(np.arange(1_000)).tolist()
    count, values, shares = _curve(all_itl_ms, history([answered("a", events_ms=events_ms)]))
    assert (count, len(values)) == (999, ECDF_POINTS)
    assert (values[0], values[-1], shares[-1]) == (1, 999, 1)
