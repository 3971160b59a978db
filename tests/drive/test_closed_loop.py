"""The closed loop: how many requests are in flight, when they start, when the cell ends."""

from __future__ import annotations

import itertools

import pytest

from harness.endpoint.encode import EncodedRequest
from harness.records import ErrorKind, Outcome
from tests.drive.fakes import MS, Endless, Listed, S, Script, ask
from tests.drive.running import cell_spec, run
from workloads.options import WorkloadOptions
from workloads.plan import Marker, Phase, Scrape, Sleep, Wait
from workloads.registry import WORKLOADS
from workloads.text import approximate_count

STEADY = Script(first_ns=90 * MS, gap_ns=0, tokens=1)


def in_flight_at(times: list[tuple[int, int]], at_ns: int) -> int:
    return sum(start <= at_ns < end for start, end in times)


@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_exactly_the_asked_number_of_requests_is_in_flight(concurrency: int) -> None:
    plan = Listed(steps=tuple(ask(f"k{number}") for number in range(40)))
    ran = run(plan, cell_spec(concurrency, spread_start_ns=0), lambda request: STEADY)
    assert ran.client.most_in_flight == concurrency
    times = [(sent, ran.client.ended_ns[request.request_id]) for sent, request in ran.client.sent]
    last_start = max(start for start, _ in times)
    first_start = min(start for start, _ in times)
    probes = range(first_start, last_start, 7 * MS)
    assert {in_flight_at(times, probe) for probe in probes} == {concurrency}
    assert ran.closing.sent == ran.closing.ok == 40


def test_achieved_concurrency_is_reported() -> None:
    plan = Listed(steps=tuple(ask(f"k{number}") for number in range(40)))
    health = run(plan, cell_spec(4, spread_start_ns=0), lambda request: STEADY).closing.health
    assert health.achieved_concurrency == pytest.approx(4, rel=0.01)
    assert (health.connections_asked, health.connections_open) == (4, 4)
    assert health.loop_lag_max_ms is not None and health.loop_lag_max_ms < 0.01


def test_first_starts_are_spread_evenly() -> None:
    plan = Listed(steps=tuple(ask(f"k{number}") for number in range(8)))
    ran = run(plan, cell_spec(4, spread_start_ns=40 * MS), lambda request: STEADY)
    first_ns = ran.client.sent[0][0]
    offsets_ms = [round((sent - first_ns) / MS) for sent, _ in ran.client.sent[:4]]
    assert offsets_ms == [0, 10, 20, 30]
    assert ran.closing.health.send_delay_p99_ms == pytest.approx(0, abs=0.01)


def test_the_window_reaches_from_first_plan_to_last_event() -> None:
    ran = run(Listed(steps=(ask("w", phase=Phase.WARMUP), ask("a"), ask("b"))), cell_spec(1))
    measured = [invoke for invoke in ran.history.invokes if invoke.phase is Phase.MEASURE]
    assert ran.closing.window_start_ns == measured[0].planned_ns
    assert ran.closing.window_end_ns == ran.history.completes[-1].last_token_ns
    assert (ran.closing.warmup_requests, ran.closing.sent) == (1, 2)


def test_no_request_starts_after_the_duration() -> None:
    ran = run(Endless(), cell_spec(2, duration_ns=S, spread_start_ns=0), lambda request: STEADY)
    begin_ns = ran.client.sent[0][0]
    assert all(sent - begin_ns < S for sent, _ in ran.client.sent)
    assert ran.closing.ok == ran.closing.sent == len(ran.client.sent) > 20
    assert ran.closing.warnings == ()


def test_a_drain_that_takes_too_long_is_cut_and_the_cell_still_finishes() -> None:
    spec = cell_spec(2, duration_ns=S, drain_ns=S, spread_start_ns=0)
    ran = run(Endless(), spec, lambda request: Script(first_ns=600 * MS, gap_ns=S, tokens=5))
    assert (ran.closing.ok, ran.closing.unknown) == (0, 2)
    for complete in ran.history.completes:
        assert complete.error is not None and complete.error.kind is ErrorKind.CANCELLED
        assert complete.text == "x x "
    assert ran.closing.warnings == ("2 requests were still in flight after the drain and were cut off",)


def test_a_limit_of_requests_ends_an_endless_plan() -> None:
    ran = run(Endless(), cell_spec(3, max_requests=10))
    assert ran.closing.sent == len(ran.client.sent) == 10
    assert ran.progress.requests == 10


def test_a_limit_of_tokens_is_never_passed() -> None:
    spent = 25
    ran = run(Endless(), cell_spec(3, max_tokens=10 * spent + 7))
    assert ran.closing.sent == 10
    assert "might have passed its 257 tokens" in ran.closing.warnings[0]


def test_refused_requests_cost_no_tokens_and_the_cell_goes_on() -> None:
    def answers(request: EncodedRequest) -> Script:
        return Script(status=503 if int(request.request_id[1:]) % 2 else 200)

    ran = run(Listed(steps=tuple(ask(f"k{n}") for n in range(20))), cell_spec(1, max_tokens=11 * 25), answers)
    assert (ran.closing.ok, ran.closing.refused) == (10, 10)
    refused = {complete.request_id for complete in ran.history.completes if complete.outcome is Outcome.REFUSED}
    assert refused <= ran.history.raws.keys()


def test_sleeps_scrapes_and_markers_are_in_the_history_and_take_their_time() -> None:
    steps = (
        ask("a"),
        Wait(),
        Marker(key="m", text="half"),
        Sleep(key="s", duration_ns=3 * S),
        Scrape(key="c"),
        ask("b"),
    )
    ran = run(Listed(steps=steps), cell_spec(2, scrape=True))
    assert [(invoke.step, invoke.key) for invoke in ran.history.invokes] == [
        ("ask", "a"), ("marker", "m"), ("sleep", "s"), ("scrape", "c"), ("ask", "b"),
    ]  # fmt: skip
    assert ran.history.invokes[1].note == "half"
    first_end = ran.history.completes[0].end_ns
    assert first_end is not None
    assert ran.client.sent[1][0] - first_end >= 3 * S
    assert any(abs(at_ns - ran.client.sent[1][0]) < MS for at_ns in ran.client.scrapes_ns)


def test_a_wait_ends_at_its_time() -> None:
    ran = run(Listed(steps=(Wait(until_ns=2 * S), ask("a"), ask("b", planned_ns=5 * S))), cell_spec(2))
    sent_s = [(sent - ran.closing.origin_ns) / S for sent, _ in ran.client.sent]
    assert sent_s == pytest.approx([2, 5], abs=1e-3)


def test_a_plan_that_waits_for_nothing_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="nothing is in flight"):
        run(Listed(steps=(Wait(),)), cell_spec(1))


def test_counters_are_read_before_every_second_and_after() -> None:
    ran = run(Endless(), cell_spec(1, duration_ns=5 * S), lambda request: STEADY)
    assert 7 <= len(ran.closing.counters) <= 9
    assert ran.closing.counters[0].at_ns <= ran.client.sent[0][0]
    assert ran.closing.counters[-1].at_ns >= max(ran.client.ended_ns.values())
    assert ran.closing.counters_error is None


def test_a_server_without_counters_is_asked_once() -> None:
    ran = run(Endless(), cell_spec(1, duration_ns=5 * S), lambda request: STEADY, metrics=None)
    assert ran.closing.counters == ()
    assert ran.closing.counters_error == "HTTP 404: not found"
    assert len(ran.client.scrapes_ns) == 1


def test_missing_connections_are_a_warning() -> None:
    ran = run(Listed(steps=(ask("a"),)), cell_spec(8), connections=5)
    assert ran.closing.warnings == ("only 5 of 8 connections could be opened",)


def test_warm_up_ends_before_measuring_begins() -> None:
    options = WorkloadOptions(seed=1, requests=24, highest_concurrency=8, warmups=5)
    plan = WORKLOADS["repeat"](options, approximate_count)
    ran = run(plan, cell_spec(8))
    ends = {complete.request_id: complete.end_ns or 0 for complete in ran.history.completes}
    asks = [invoke for invoke in ran.history.invokes if invoke.step == "ask"]
    warm = [invoke for invoke in asks if invoke.phase is Phase.WARMUP]
    sent = {request.request_id: at_ns for at_ns, request in ran.client.sent}
    assert len(warm) == 5
    assert all(sent[each.request_id] >= ends[warm[0].request_id] for each in warm[1:])
    last_warm_ns = max(ends[invoke.request_id] for invoke in warm)
    assert all(sent[each.request_id] >= last_warm_ns for each in asks if each.phase is Phase.MEASURE)
    assert (ran.closing.warmup_requests, ran.closing.sent, ran.progress.requests) == (5, 24, 24)


def test_a_session_thinks_before_its_next_turn() -> None:
    options = WorkloadOptions(seed=1, requests=12, highest_concurrency=2, warmups=0, turns=6, think_time_s=20)
    ran = run(WORKLOADS["agent"](options, approximate_count), cell_spec(2))
    by_session: dict[str, list[tuple[int, int]]] = {}
    ends = {complete.request_id: complete.end_ns or 0 for complete in ran.history.completes}
    sent = {request.request_id: at_ns for at_ns, request in ran.client.sent}
    for invoke in ran.history.invokes:
        if invoke.step == "ask":
            by_session.setdefault(str(invoke.session), []).append((sent[invoke.request_id], ends[invoke.request_id]))
    pauses_s = [
        (later[0] - earlier[1]) / S for turns in by_session.values() for earlier, later in itertools.pairwise(turns)
    ]
    assert len(pauses_s) == 10
    assert min(pauses_s) > 0.5
    assert 5 < sorted(pauses_s)[5] < 80


def test_raw_answers_are_sampled() -> None:
    ran = run(Listed(steps=tuple(ask(f"k{n}") for n in range(20))), cell_spec(1, raw_every=5))
    assert len(ran.history.raws) == 4
    assert all(b"[DONE]" in raw for raw in ran.history.raws.values())
    assert all(complete.outcome is Outcome.OK for complete in ran.history.completes)
