from __future__ import annotations

import numpy as np
import pytest

from harness.metrics import CellSummary, MetricOptions, parse_percentiles, summarise_cell
from harness.metrics.distribution import distribution
from harness.records import CellInfo, ErrorKind, Outcome, Record
from tests.metrics.build import answered, failed, info, without_times
from workloads.plan import Phase


def summary(
    records: list[Record], cell_info: CellInfo | None = None, options: MetricOptions | None = None
) -> CellSummary:
    return summarise_cell(records, cell_info, options if options is not None else MetricOptions(), cell="c1")


def test_throughput_is_over_the_whole_cell() -> None:
    result = summary(
        [answered("a", events_ms=(500, 1_000)), answered("b", sent_ms=1_000, events_ms=(1_500, 4_000)), failed("c")]
    )
    assert result.value("duration") == 4.0
    assert (result.value("completed"), result.value("failed")) == (2, 1)
    assert result.value("request_throughput") == 0.5
    assert result.value("output_throughput") == 6 / 4
    assert result.value("total_token_throughput") == (6 + 100) / 4


def test_a_failure_after_the_last_answer_is_part_of_the_duration() -> None:
    assert summary([answered("a"), failed("b", sent_ms=1_000)]).value("duration") == pytest.approx(1.005)


def test_the_window_of_a_finished_cell_wins() -> None:
    assert summary([answered("a")], info(window_s=(0.0, 2.0))).value("output_throughput") == 1.5


def test_vllms_names_are_there() -> None:
    result = summary([answered("a")], options=MetricOptions(percentiles=(50, 99, 99.9), goodput={"ttft": 500}))
    names = {metric.name for metric in result.metrics}
    rates = {"completed", "failed", "duration", "request_throughput", "output_throughput", "total_token_throughput"}
    totals = {"total_input_tokens", "total_output_tokens", "request_goodput"}
    spread = {
        f"{stat}_{what}_ms"
        for stat in ("mean", "median", "std", "p50", "p99", "p99.9")
        for what in ("ttft", "tpot", "itl", "e2el")
    }
    assert names >= rates | totals | spread
    assert len(names) == len(result.metrics)


def test_an_empty_cell_gives_none_not_zero() -> None:
    result = summary([])
    assert (result.value("completed"), result.value("failed")) == (0, 0)
    for name in ("duration", "request_throughput", "output_throughput", "mean_ttft_ms", "p99_itl_ms", "cached_share"):
        metric = result.metric(name)
        assert metric is not None
        assert metric.value is None
        assert metric.count == 0


def test_a_cell_where_everything_failed_has_a_rate_of_zero_and_no_latency() -> None:
    result = summary([failed("a"), failed("b", sent_ms=1_000)])
    assert (result.value("request_throughput"), result.value("output_throughput")) == (0, 0)
    assert result.value("median_ttft_ms") is None


def test_warm_up_is_left_out_of_everything() -> None:
    warm = answered("w", events_ms=(9_000, 9_900), phase=Phase.WARMUP, cached_tokens=50)
    result = summary([warm, answered("a", sent_ms=10_000, events_ms=(10_100, 11_000), cached_tokens=0)])
    assert result.value("completed") == 1
    assert result.value("duration") == 1.0
    assert result.value("mean_ttft_ms") == 100
    assert result.value("cached_share") == 0
    assert result.value("warmup_requests") == 1


def test_cached_share_counts_only_requests_that_report_it() -> None:
    result = summary(
        [
            answered("a", prompt_tokens=100, cached_tokens=80),
            answered("b", prompt_tokens=300, cached_tokens=0),
            answered("c", prompt_tokens=900, cached_tokens=None),
        ]
    )
    share = result.metric("cached_share")
    assert share is not None
    assert share.value == 0.2
    assert share.count == 2
    assert share.note == "cached tokens not reported by 1 of 3 requests"
    assert result.value("cached_not_reported") == 1


def test_a_reported_zero_is_zero_and_silence_is_none() -> None:
    assert summary([answered("a", cached_tokens=0)]).value("cached_share") == 0
    assert summary([answered("a", cached_tokens=None)]).value("cached_share") is None
    assert summary([answered("a", cached_tokens=None)]).value("cached_tokens") is None


def test_tokens_nobody_counted_give_no_throughput() -> None:
    result = summary([answered("a", output_tokens=None, prompt_tokens=None)])
    assert result.value("output_throughput") is None
    assert result.value("total_input_tokens") is None
    assert result.value("request_throughput") is not None


def test_tokens_some_requests_lack_are_noted() -> None:
    metric = summary([answered("a"), answered("b", output_tokens=None)]).metric("output_throughput")
    assert metric is not None
    assert metric.note == "output tokens not reported by 1 of 2 requests"


def test_the_source_of_output_tokens_is_counted() -> None:
    result = summary([answered("a"), answered("b")])
    assert result.value("output_tokens_from_usage") == 2
    assert result.value("output_tokens_from_events") == 0


def test_itl_says_when_times_are_missing() -> None:
    metric = summary([answered("a"), without_times(answered("b"))]).metric("mean_itl_ms")
    assert metric is not None
    assert metric.count == 2
    assert metric.note == "token times were not kept for 1 of 2 requests"


def test_failures_are_grouped_by_reason_with_an_example() -> None:
    timeout = failed("t", kind=ErrorKind.STALL_TIMEOUT, http_status=None, outcome=Outcome.UNKNOWN)
    result = summary([failed("a"), failed("b"), timeout])
    assert [(each.reason, each.count, each.example) for each in result.failures] == [
        ("http_status 503", 2, "message of a"),
        ("stall_timeout", 1, "message of t"),
    ]
    assert (result.value("refused"), result.value("unknown")) == (2, 1)


def test_health_comes_from_the_closing_record() -> None:
    assert summary([answered("a")], info()).value("loop_lag_p99_ms") == 0.9
    assert summary([answered("a")]).value("loop_lag_p99_ms") is None


def test_an_unfinished_cell_is_described_by_its_plan() -> None:
    result = summarise_cell(
        [], None, MetricOptions(), cell="c8", workload="agent", concurrency=8, warnings=["cut short"]
    )
    assert (result.finished, result.workload, result.concurrency) == (False, "agent", 8)
    assert result.warnings == ("cut short",)


def test_the_flat_json_holds_whole_numbers_and_nulls() -> None:
    flat = summary([answered("a"), failed("b")], info(8)).as_json()
    assert flat["concurrency"] == 8
    assert flat["completed"] == 1
    assert isinstance(flat["completed"], int)
    assert flat["cached_share"] is None
    assert flat["failures"] == [{"reason": "http_status 503", "count": 1, "example": "message of b"}]
    assert flat["warnings"] == ["from the cell"]


def test_percentiles_interpolate_linearly_and_std_is_of_the_population() -> None:
    values = [1.0, 2.0, 3.0, 10.0]
    metrics = {each.name: each.value for each in distribution("x_ms", "ms", values, (50, 90))}
    assert metrics == {
        "mean_x_ms": 4.0,
        "median_x_ms": 2.5,
        "std_x_ms": pytest.approx(np.std(values)),
        "p50_x_ms": 2.5,
        "p90_x_ms": pytest.approx(7.9),
    }


def test_percentiles_are_read_as_typed() -> None:
    assert parse_percentiles("50, 90,99.9,50") == (50.0, 90.0, 99.9)


@pytest.mark.parametrize("text", ["", "50,", "p50", "101", "-1", "nan"])
def test_bad_percentiles_are_a_clear_error(text: str) -> None:
    with pytest.raises(ValueError, match="percentile"):
        parse_percentiles(text)
