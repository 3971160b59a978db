from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.metrics import CellSummary, MetricOptions, summarise_cell
from harness.records import Record, TokenSource
from harness.report.warnings import run_warnings
from tests.metrics.build import answered, info
from tests.store.samples import run_info


def cell(level: int, records: Sequence[Record]) -> CellSummary:
    return summarise_cell(records, info(level, cell=f"c{level}"), MetricOptions(), cell=f"c{level}")


def with_cached(level: int, cached_tokens: int | None, prompt_tokens: int = 100) -> CellSummary:
    return cell(level, [answered("a", prompt_tokens=prompt_tokens, cached_tokens=cached_tokens)])


def test_a_cached_share_that_differs_between_like_cells_is_told() -> None:
    (warning,) = run_warnings(run_info(), [with_cached(1, 90), with_cached(8, 85)])
    assert "cached share differs" in warning
    assert "c1 90.0%, c8 85.0%" in warning


def test_a_cached_share_within_two_points_is_not() -> None:
    assert run_warnings(run_info(), [with_cached(1, 90), with_cached(8, 89), with_cached(32, None)]) == ()


def test_input_lengths_that_differ_are_told() -> None:
    (warning,) = run_warnings(run_info(), [with_cached(1, None, 100), with_cached(8, None, 110)])
    assert "median input length differs" in warning


def test_output_tokens_from_a_lesser_source_are_told() -> None:
    record = answered("a")
    counted = replace(record, complete=replace(record.complete, output_tokens_source=TokenSource.TOKEN_IDS))
    (warning,) = run_warnings(run_info(), [cell(1, [counted, record])])
    assert "1 from token ids" in warning


def test_cells_that_were_given_up_are_named() -> None:
    assert run_warnings(run_info(), [], aborted=["c1.aborted-1"]) == ("begun, given up and kept aside: c1.aborted-1",)


def test_cells_of_other_workloads_are_not_compared() -> None:
    other = replace(with_cached(8, 10), workload="random")
    assert run_warnings(run_info(), [with_cached(1, 90), other]) == ()
