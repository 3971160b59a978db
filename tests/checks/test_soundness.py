"""The harness's verdict on itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.checks.judgement import Judgement
from harness.checks.soundness import Conduct, judge, late_p99_ms, sustained_level
from harness.checks.verdict import Status, Verdict
from harness.cli.exits import Exit
from harness.cli.verdict_output import exit_code
from harness.drive.soundness import judge_soundness
from harness.records import HarnessHealth, Record
from harness.store import RunFolder
from tests.metrics.build import MS, answered, info
from tests.store.samples import round_plan, run_info
from workloads.plan import Phase

# The worst of 400 cells that nothing was wrong with, on a machine of two cores with a load of 8.
BUSY = HarnessHealth(
    loop_lag_p50_ms=6.0, loop_lag_p99_ms=116.0, loop_lag_max_ms=436.0, send_delay_p50_ms=1.0, send_delay_p99_ms=237.0,
    cpu_share=0.89, achieved_concurrency=6.1, connections_asked=8, connections_open=8,
)  # fmt: skip
NOTHING = HarnessHealth(
    loop_lag_p50_ms=None, loop_lag_p99_ms=None, loop_lag_max_ms=None, send_delay_p50_ms=None, send_delay_p99_ms=None,
    cpu_share=None, achieved_concurrency=None, connections_asked=0, connections_open=0,
)  # fmt: skip


def requests(slots: int, each: int = 4, length_ms: float = 1000.0) -> tuple[Record, ...]:
    """`slots` requests at any time, started 5 ms apart; every slot sends `each`, and the later slots end sooner."""
    found = []
    for slot in range(slots):
        length = length_ms * (1 - slot / (2 * slots))
        for number in range(each):
            sent = slot * 5 + number * length
            found.append(
                answered(f"r{slot}-{number}", planned_ms=sent, sent_ms=sent + 0.3, events_ms=(sent + length - 1,))
            )
    return tuple(found)


def conduct(health: HarnessHealth = BUSY, slots: int = 8, concurrency: int = 8, **more: object) -> Conduct:
    closing = replace(info(), concurrency=concurrency, health=health)
    given = {"records": requests(slots), "keeps_level": True, **more}
    return Conduct(cell="agent-c0008", info=closing, **given)  # type: ignore[arg-type]


def test_a_busy_machine_of_two_cores_is_sound() -> None:
    verdict = judge([conduct()])
    assert verdict.status is Status.PASS and verdict.examined == 1
    assert verdict.details["worst_loop_lag_p99_ms"] == 116.0


@pytest.mark.parametrize(
    ("health", "words"),
    [
        (replace(BUSY, loop_lag_p50_ms=25.0), "half of its timers"),
        (replace(BUSY, loop_lag_p99_ms=201.0), "loop lag p99 201 ms"),
        (replace(BUSY, cpu_share=0.99), "99% of a core"),
        (replace(BUSY, gc_share=0.06, gc_max_ms=50.0), "garbage was collected for 6% of the time, up to 50 ms"),
    ],
)
def test_a_harness_that_was_held_up_is_unsound(health: HarnessHealth, words: str) -> None:
    verdict = judge([conduct(), conduct(health)])
    assert verdict.status is Status.FAIL and verdict.violations == 1
    assert words in verdict.reason and words in verdict.evidence[0].text


@pytest.mark.parametrize(("share", "longest_ms"), [(0.2, 5.0), (0.01, 300.0)])
def test_short_or_rare_pauses_of_the_collector_spoil_nothing(share: float, longest_ms: float) -> None:
    assert judge([conduct(replace(BUSY, gc_share=share, gc_max_ms=longest_ms))]).status is Status.PASS


def test_the_spread_of_starts_and_the_tail_are_forgiven() -> None:
    records = requests(8)
    busy_ns = [(each.complete.end_ns or 0) - (each.complete.sent_ns or 0) for each in records]
    assert sum(busy_ns) / (4000 * MS) < 0.8 * 8
    assert sustained_level(records) == 8
    assert judge([conduct(records=records)]).status is Status.PASS


def test_a_level_that_was_never_there_is_unsound() -> None:
    verdict = judge([conduct(slots=6)])
    assert verdict.status is Status.FAIL
    assert "8 requests were to be in flight, and never more than 6" in verdict.reason


def test_a_plan_that_pauses_or_is_too_short_is_not_held_to_its_level() -> None:
    assert judge([conduct(slots=2, keeps_level=False)]).status is Status.PASS
    assert judge([conduct(records=requests(2, each=2))]).status is Status.PASS


def test_late_sends_are_unsound_but_waiting_for_room_is_not() -> None:
    late = tuple(answered(f"r{n}", planned_ms=0, sent_ms=400, events_ms=(900,)) for n in range(20))
    waited = tuple(replace(each, invoke=replace(each.invoke, released_ns=399 * MS)) for each in late)
    assert "went out late: p99 400 ms" in judge([conduct(records=late, keeps_level=False)]).reason
    assert judge([conduct(records=waited, keeps_level=False)]).status is Status.PASS
    assert late_p99_ms(waited) == pytest.approx(1.0)


def test_lost_records_are_unsound_and_none_lost_is_not() -> None:
    assert judge([conduct(lost={"lines cut": 0})]).status is Status.PASS
    verdict = judge([conduct(lost={"lines cut": 1})])
    assert verdict.status is Status.FAIL and "lines cut: 1" in verdict.reason


def test_what_was_not_measured_is_no_reason() -> None:
    verdict = judge([conduct(NOTHING)])
    nowhere: dict[str, object] = {"late_cells": [], "lossy_cells": []}
    assert verdict.status is Status.PASS and verdict.details == nowhere
    worst = {"worst_loop_lag_p50_ms": 0.0}
    assert judge([conduct(replace(NOTHING, loop_lag_p50_ms=0.0))]).details == worst | nowhere


def test_nothing_finished_is_undecided() -> None:
    assert judge([]).status is Status.INCONCLUSIVE
    assert judge([Conduct(cell="c", info=None, records=requests(2))]).status is Status.INCONCLUSIVE
    assert sustained_level(()) is None and late_p99_ms(()) is None


def test_the_warm_up_does_not_count() -> None:
    late = answered("w", planned_ms=0, sent_ms=9000, events_ms=(9100,), phase=Phase.WARMUP)
    assert judge([conduct(records=(late, *requests(8)))]).status is Status.PASS


def ended(status: Status, **unsound: list[str]) -> Exit:
    """The exit code of a run of `eviction`, with what the harness said of itself."""
    soundness = Verdict(
        check="soundness", status=Status.FAIL if unsound else Status.PASS, reason="so", examined=1, details=unsound
    )
    return exit_code(
        [
            Judgement(check="eviction", verdict=Verdict(check="eviction", status=status, reason="so", examined=1)),
            Judgement(check="soundness", verdict=soundness),
        ]
    )


@pytest.mark.parametrize(
    ("check", "unsound", "code"),
    [
        (Status.PASS, {}, Exit.PASS),
        (Status.PASS, {"late_cells": ["eviction-r0"]}, Exit.UNSOUND),
        (Status.SUSPECT, {"late_cells": ["heartbeat-r0", "cached-tokens-r1"]}, Exit.UNSOUND),
        (Status.PASS, {"late_cells": ["spec-parity-r0", "capabilities-r0"]}, Exit.PASS),
        (Status.INCONCLUSIVE, {"late_cells": ["isolation-r2"]}, Exit.UNDECIDED),
        (Status.PASS, {"lossy_cells": ["spec-parity-r0"]}, Exit.UNSOUND),
        (Status.FAIL, {"late_cells": ["eviction-r0"], "lossy_cells": ["eviction-r0"]}, Exit.FAIL),
        (Status.INCONCLUSIVE, {}, Exit.UNDECIDED),
    ],
)
def test_lost_records_spoil_every_verdict_and_late_ones_those_that_listen_to_time(
    check: Status, unsound: dict[str, list[str]], code: Exit
) -> None:
    assert ended(check, **unsound) is code


def test_a_run_is_judged_from_its_folder(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, run_info()) as run:
        run.plan_round(round_plan())
        with run.cell("c1") as cell:
            record = answered(cell.next_request_id(), sent_ms=1, events_ms=(5.0,))
            cell.invoke(record.invoke)
            cell.complete(record.complete, record.event_times_ns)
            cell.finish(replace(info(), cell="c1", health=replace(BUSY, loop_lag_p99_ms=500.0)))
    judgement = judge_soundness(RunFolder.open(run.path))
    assert judgement.verdict is not None and judgement.verdict.status is Status.FAIL
    assert "500 ms" in judgement.verdict.reason
