"""Open load in virtual time: requests leave when they are due, and what delays them is told apart."""

from __future__ import annotations

from itertools import pairwise

import pytest

from harness.metrics import MetricOptions, summarise_cell
from harness.records import Record
from tests.drive.fakes import MS, S, Script
from tests.drive.running import Ran, cell_spec, run
from workloads import WORKLOADS, WorkloadOptions
from workloads.arrivals import Arrivals
from workloads.readers import read_trace
from workloads.replay import ReplayOptions, replay_trace
from workloads.text import approximate_count

SLOW = Script(first_ns=900 * MS, gap_ns=10 * MS, tokens=11)


def ran(cap: int, **more: object) -> Ran:
    options = {"seed": 1, "requests": 30, "highest_concurrency": 1, "warmups": 1, **more}
    plan = WORKLOADS["random"](WorkloadOptions(**options), approximate_count)  # type: ignore[arg-type]
    return run(plan, cell_spec(cap, arrivals="4/s", request_rate=4.0), lambda request: SLOW)


def measured(done: Ran) -> list[Record]:
    completes = {each.request_id: each for each in done.history.completes}
    invokes = [each for each in done.history.invokes if each.step == "ask" and each.phase == "measure"]
    return [Record(invoke=each, complete=completes[each.request_id]) for each in invokes]


def test_requests_leave_when_they_are_due_whatever_came_back() -> None:
    done = ran(64, arrivals=Arrivals(rate_per_s=4.0, burstiness=float("inf")))
    records = measured(done)
    planned = [record.invoke.planned_ns for record in records]
    assert {b - a for a, b in pairwise(planned)} == {250 * MS}
    assert all(record.complete.sent_ns == record.invoke.planned_ns for record in records)
    assert done.client.most_in_flight == 4


def test_a_limit_of_requests_in_flight_delays_them_and_the_wait_is_told_apart() -> None:
    done = ran(2, arrivals=Arrivals(rate_per_s=4.0, burstiness=float("inf")))
    assert done.client.most_in_flight == 2
    summary = summarise_cell(measured(done), done.closing, MetricOptions(), cell="c")
    assert summary.value("offered_request_rate") == pytest.approx(4.0)
    assert summary.value("p100_client_queue_ms") == pytest.approx(14 * 1000 - 28 * 250)
    assert summary.value("p100_schedule_slip_ms") == 0
    late, sent = summary.value("p90_planned_ttft_ms"), summary.value("p90_ttft_ms")
    assert late is not None and sent == 900 and late > 5000


def test_all_at_once_is_all_at_once() -> None:
    done = ran(100, arrivals=Arrivals())
    assert done.client.most_in_flight == 30
    assert len({record.complete.sent_ns for record in measured(done)}) == 1


def test_a_duration_ends_an_open_load() -> None:
    arrivals = Arrivals(rate_per_s=10.0, burstiness=float("inf"), horizon_s=100.0)
    plan = WORKLOADS["random"](
        WorkloadOptions(seed=1, requests=None, highest_concurrency=1, arrivals=arrivals), approximate_count
    )
    done = run(plan, cell_spec(64, duration_ns=5 * S, arrivals="10/s"))
    assert done.closing.ended_by == "duration" and done.closing.sent == 50


def test_a_trace_is_replayed_at_its_own_times_sped_up() -> None:
    rows = "".join(f'{{"timestamp": {at}, "input_length": 20, "output_length": 5, "hash_ids": [0]}}\n' for at in
                   (0, 1000, 7000, 9500))  # fmt: skip
    trace = read_trace([("t", rows)], "mooncake")
    options = WorkloadOptions(seed=1, requests=None, highest_concurrency=1, warmups=0)
    plan = replay_trace(trace, options, ReplayOptions(timed=True, speed=5.0), approximate_count, chat=True)
    done = run(plan, cell_spec(64, arrivals="trace x5"))
    sent = [record.complete.sent_ns or 0 for record in measured(done)]
    assert [at - sent[0] for at in sent] == [0, 200 * MS, 1400 * MS, 1900 * MS]
