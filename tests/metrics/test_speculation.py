"""Acceptance of drafts per cell, and whose account it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.metrics import CellSummary, MetricOptions, summarise_cell
from harness.records import CounterSample, Record
from harness.report.drafts import counted_in_cell
from harness.stats.drafts import Drafts
from tests.metrics.build import answered, info


def drafted(name: str, steps: int, accepted: int) -> Record:
    record = answered(name)
    own = {"num_spec_steps": steps, "num_accepted_draft_tokens": accepted, "num_draft_tokens": 3 * steps}
    return replace(record, complete=replace(record.complete, extra={"metrics": {"speculative_decoding": own}}))


def summary(records: list[Record], counted: Drafts | None = None) -> CellSummary:
    return summarise_cell(records, None, MetricOptions(), cell="c1", counted=counted)


def test_counters_come_before_the_answers_own_fields() -> None:
    found = summary([drafted("a", 10, 5)], Drafts(steps=20, accepted=30, drafted=60))
    assert found.value("acceptance_length") == 2.5 and found.value("draft_acceptance_rate") == 0.5
    assert found.as_json()["acceptance_source"] == "server counters"


def test_own_fields_are_added_up() -> None:
    found = summary([drafted("a", 10, 5), drafted("b", 30, 15)])
    assert found.value("acceptance_length") == 1.5
    assert found.value("draft_acceptance_rate") == pytest.approx(20 / 120)
    assert found.as_json()["acceptance_source"] == "the answers' own fields"


def test_no_account_is_none_and_nothing_accepted_is_one() -> None:
    silent, none_accepted = summary([answered("a")]), summary([drafted("a", 10, 0)])
    assert silent.value("acceptance_length") is None and silent.as_json()["acceptance_source"] is None
    assert none_accepted.value("acceptance_length") == 1.0 and none_accepted.value("draft_acceptance_rate") == 0.0


def test_counters_that_stood_still_leave_it_to_the_fields() -> None:
    assert summary([answered("a")], Drafts(steps=0, accepted=0)).value("acceptance_length") is None


def sample(at_ns: int, steps: int, accepted: int) -> CounterSample:
    names = ("vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_accepted_tokens_total")
    return CounterSample(at_ns=at_ns, values=dict(zip(names, (float(steps), float(accepted)), strict=True)))


def test_counters_are_read_from_the_start_of_measuring() -> None:
    cell = info(window_s=(1.0, 2.0))
    assert cell.window_start_ns is not None
    start_ns = cell.window_start_ns
    samples = (sample(start_ns - 5, 10, 10), sample(start_ns - 1, 50, 40), sample(start_ns + 9, 90, 120))
    assert counted_in_cell(replace(cell, counters=samples)) == Drafts(steps=40, accepted=80)
    assert counted_in_cell(replace(cell, counters=samples[:1])) is None
    assert counted_in_cell(None) is None
