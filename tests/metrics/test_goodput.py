from __future__ import annotations

import pytest

from harness.metrics import MetricOptions, parse_goodput, summarise_cell
from harness.metrics.goodput import meets
from tests.metrics.build import answered, failed


def test_objectives_are_read_in_any_grouping() -> None:
    assert parse_goodput(["ttft:500", "tpot:50 e2el:30000"]) == {"ttft": 500, "tpot": 50, "e2el": 30_000}
    assert parse_goodput([]) == {}


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["ttft"], "NAME:MILLISECONDS"),
        (["speed:3"], "not one of ttft, tpot, e2el"),
        (["ttft:fast"], "positive number"),
        (["ttft:0"], "positive number"),
        (["ttft:-1"], "positive number"),
        (["ttft:nan"], "positive number"),
        (["ttft:1", "ttft:2"], "twice"),
    ],
)
def test_bad_objectives_are_a_clear_error(items: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_goodput(items)


def test_a_request_must_meet_every_objective_and_a_limit_is_met_when_equal() -> None:
    record = answered("a", events_ms=(100, 110, 120))
    assert meets(record, {"ttft": 100, "tpot": 10, "e2el": 120})
    assert not meets(record, {"ttft": 100, "tpot": 9.9, "e2el": 120})


def test_one_token_has_no_tpot_to_miss_and_no_tokens_meet_nothing() -> None:
    assert meets(answered("a", events_ms=(100,), output_tokens=1), {"tpot": 1})
    assert not meets(answered("a", events_ms=(), output_tokens=0), {"tpot": 1})


def test_goodput_is_per_second_and_its_share_counts_failures() -> None:
    options = MetricOptions(goodput={"ttft": 200})
    records = [answered("a", events_ms=(100, 1_000)), answered("b", events_ms=(300, 2_000)), failed("c"), failed("d")]
    summary = summarise_cell(records, None, options, cell="c1")
    assert summary.value("request_goodput") == 0.5
    assert summary.value("good_share") == 0.25
    assert summary.value("good_requests") == 1


def test_without_objectives_there_is_no_goodput() -> None:
    assert summarise_cell([answered("a")], None, MetricOptions(), cell="c1").metric("request_goodput") is None
