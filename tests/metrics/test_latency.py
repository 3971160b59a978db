from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.metrics.cell import MetricOptions, measured_cell
from harness.metrics.latency import (
    all_itl_ms,
    e2el_ms,
    inter_event_ms,
    itl_ms,
    latency_metrics,
    planned_ttft_ms,
    tpot_ms,
    ttft_ms,
)
from tests.metrics.build import answered, without_times


def test_ttft_counts_from_sent_and_the_planned_one_from_when_it_was_due() -> None:
    record = answered("a", planned_ms=10, sent_ms=40, events_ms=(100, 110))
    assert ttft_ms(record) == 60
    assert planned_ttft_ms(record) == 90


def test_e2e_ends_with_the_last_token_not_with_the_answer() -> None:
    assert e2el_ms(answered("a", sent_ms=10, events_ms=(100, 130))) == 120


def test_tpot_leaves_out_the_tokens_of_the_first_event() -> None:
    record = answered("a", events_ms=(100, 130, 160), event_tokens=(3, 1, 2), output_tokens=6)
    assert tpot_ms(record) == pytest.approx(60 / 3)


def test_tpot_takes_one_token_for_a_first_event_nobody_counted() -> None:
    assert tpot_ms(answered("a", events_ms=(100, 110, 120), output_tokens=3)) == pytest.approx(10)


@pytest.mark.parametrize("tokens", [None, 0, 1])
def test_tpot_is_none_when_nothing_came_after_the_first_event(tokens: int | None) -> None:
    assert tpot_ms(answered("a", events_ms=(100,), output_tokens=tokens)) is None


def test_itl_divides_a_gap_by_the_tokens_of_the_later_event_and_repeats_it() -> None:
    record = answered("a", events_ms=(100, 130, 135), event_tokens=(2, 3, 1), output_tokens=6)
    assert itl_ms(record).tolist() == [10, 10, 10, 5]
    assert inter_event_ms(record).tolist() == [30, 5]


def test_itl_is_the_gap_when_events_hold_one_token_each() -> None:
    record = answered("a", events_ms=(100, 130, 135))
    assert itl_ms(record).tolist() == inter_event_ms(record).tolist() == [30, 5]


def test_no_events_give_no_latency() -> None:
    record = answered("a", events_ms=(), output_tokens=None)
    assert (ttft_ms(record), planned_ttft_ms(record), e2el_ms(record), tpot_ms(record)) == (None, None, None, None)
    assert len(itl_ms(record)) == len(inter_event_ms(record)) == 0


def test_unkept_times_leave_itl_empty_and_the_rest_whole() -> None:
    record = without_times(answered("a"))
    assert len(itl_ms(record)) == 0
    assert ttft_ms(record) == 100


@given(st.lists(st.tuples(st.integers(1, 1_000), st.integers(1, 9)), min_size=2, max_size=40))
def test_itl_adds_up_to_the_time_after_the_first_event(gaps: list[tuple[int, int]]) -> None:
    events_ms = np.cumsum([gap for gap, _ in gaps]).tolist()
    tokens = tuple(count for _, count in gaps)
    record = answered("a", events_ms=events_ms, event_tokens=tokens, output_tokens=sum(tokens))
    assert itl_ms(record).sum() == pytest.approx(events_ms[-1] - events_ms[0])
    assert tpot_ms(record) == pytest.approx(itl_ms(record).mean())


@pytest.mark.parametrize("tokens", [None, (1, 2, 1)])
def test_itl_of_many_requests_is_that_of_each(tokens: tuple[int, ...] | None) -> None:
    more = answered("b", events_ms=(100, 130, 135), event_tokens=tokens, output_tokens=4)
    records = [answered("a", events_ms=(100, 107)), without_times(answered("c")), more, answered("d", events_ms=(5,))]
    assert all_itl_ms(records).tolist() == [value for each in records for value in itl_ms(each)]


@pytest.mark.parametrize(("tokens", "itl"), [(None, [20, 20]), ((1, 2), [10, 10, 20])])
def test_itl_is_inter_event_latency_only_where_events_hold_one_token(
    tokens: tuple[int, ...] | None, itl: list[float]
) -> None:
    records = [answered("a", events_ms=(100, 120), event_tokens=tokens), answered("b", events_ms=(100, 120))]
    found = {each.name: each for each in latency_metrics(measured_cell(records, None, MetricOptions()))}
    assert (found["mean_itl_ms"].value, found["mean_itl_ms"].count) == (pytest.approx(np.mean(itl)), len(itl))
    assert (found["mean_inter_event_ms"].value, found["mean_inter_event_ms"].count) == (20, 2)
