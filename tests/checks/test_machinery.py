"""Rounds, follow-ups, budgets, interruption, crashes and judging again, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from harness.checks.check import Check, CheckBudget, PlanRequest
from harness.checks.history import CheckHistory
from harness.checks.verdict import FollowUp, Status, Verdict
from harness.drive.check_history import load_history, rounds_of
from harness.drive.judging import VERDICTS, judge_run
from harness.store import RunFolder, StoreError, read_cell
from tests.checks.running import run_simulated
from workloads.material import Segment
from workloads.plan import Ask
from workloads.sequence import Sequence

TOKENS = 100


def plan(request: PlanRequest) -> Sequence:
    """As many prompts as the budget, or the follow-up, says."""
    count = request.budget.prompts if request.follow_up is None else request.follow_up.count
    asks = [
        Ask(
            key=f"p{number}",
            prompt=request.material.prompt([Segment(name=f"r{request.round_index} p{number}", tokens=TOKENS)]),
            max_tokens=4,
            session=f"p{number}",
            expected_prompt_tokens=TOKENS,
            labels={"number": number},
            parameters=request.logprob_fields,
        )
        for number in range(count)
    ]
    return Sequence(name="counting", version=1, steps=tuple(asks), parameters={"count": count})


def verdict(history: CheckHistory, status: Status, follow_up: FollowUp | None = None) -> Verdict:
    return Verdict(
        check="counting", status=status, reason="counted", eligible=len(history.answers),
        examined=len(history.answers), follow_up=follow_up,
    )  # fmt: skip


def content(history: CheckHistory) -> Verdict:
    return verdict(history, Status.PASS if history.answers else Status.INCONCLUSIVE)


def suspicious_for(rounds: int) -> Callable[[CheckHistory], Verdict]:
    """A judge that wants four fresh prompts until it has seen so many rounds, and then is sure."""

    def judge(history: CheckHistory) -> Verdict:
        if history.rounds >= rounds:
            return verdict(history, Status.FAIL)
        wanted = FollowUp(check="counting", stratum={"d": 1}, count=4, why="an alarm")
        return verdict(history, Status.SUSPECT, wanted)

    return judge


COUNTING = Check(name="counting", question="How many?", disturbs=False, plan=plan, judge=content)
BUDGET = CheckBudget(name="small", prompts=6)


def test_a_check_is_one_round_when_its_judge_is_content(tmp_path: Path) -> None:
    done = run_simulated(COUNTING, tmp_path, budget=BUDGET)
    assert done.verdict is not None and done.verdict.status is Status.PASS
    assert done.verdict.examined == 6
    assert rounds_of(done.run, "counting") == ("counting-r0",)


def test_a_follow_up_asks_fresh_prompts_and_its_reason_is_planned(tmp_path: Path) -> None:
    done = run_simulated(replace(COUNTING, judge=suspicious_for(2)), tmp_path, budget=BUDGET)
    assert done.verdict is not None and done.verdict.status is Status.FAIL
    history = load_history(done.run, "counting")
    assert history.rounds == 2 and len(history.answers) == 6 + 4
    prompts = {answer.record.invoke.prompt_hash for answer in history.answers}
    assert len(prompts) == 10
    assert done.run.rounds()[-1].parent_verdict == "counting: an alarm"


def test_rounds_are_bounded(tmp_path: Path) -> None:
    done = run_simulated(replace(COUNTING, judge=suspicious_for(99)), tmp_path, budget=BUDGET)
    assert done.verdict is not None and done.verdict.status is Status.SUSPECT
    assert len(rounds_of(done.run, "counting")) == 3


def test_what_a_judge_needs_comes_back_from_disk(tmp_path: Path) -> None:
    done = run_simulated(COUNTING, tmp_path, budget=BUDGET)
    history = load_history(done.run, "counting")
    assert [answer.record.invoke.labels for answer in history.answers] == [{"number": n} for n in range(6)]
    assert all(answer.logprobs and len(answer.logprobs[0].top) == 20 for answer in history.answers)
    assert history.counters and {"prompt_tokens", "cached_tokens"} <= history.counters[0].values.keys()
    assert history.cut_short is None


def test_the_token_limit_holds_over_all_rounds(tmp_path: Path) -> None:
    limit = 15_000
    done = run_simulated(
        replace(COUNTING, judge=suspicious_for(99)), tmp_path, budget=CheckBudget(prompts=60, max_tokens=limit)
    )
    spent = sum(served.prompt_tokens + 4 for served in done.server.served)
    assert spent <= limit
    assert load_history(done.run, "counting").cut_short is not None


def test_the_time_limit_holds_and_is_said(tmp_path: Path) -> None:
    done = run_simulated(COUNTING, tmp_path, budget=CheckBudget(prompts=2000), minutes=0.05)
    history = load_history(done.run, "counting")
    assert 0 < len(history.answers) < 2000
    assert history.cut_short == "counting-r0 came to its limit of time"


def test_an_interrupted_check_keeps_what_was_asked_and_can_be_judged(tmp_path: Path) -> None:
    done = run_simulated(COUNTING, tmp_path, budget=CheckBudget(prompts=500), cancel_after_s=0.5)
    assert done.verdict is None
    with RunFolder.open(done.run.path) as run:
        (judgement,) = judge_run(run, {"counting": COUNTING})
        assert judgement.verdict is not None and 0 < judgement.verdict.examined < 500
        assert load_history(run, "counting").cut_short == "counting-r0 was interrupted"
        assert read_cell(run, "counting-r0").info is None


def test_judging_again_gives_the_same_and_asks_nothing(tmp_path: Path) -> None:
    done = run_simulated(replace(COUNTING, judge=suspicious_for(99)), tmp_path, budget=BUDGET)
    asked = len(done.server.served)
    (judgement,) = judge_run(done.run, {"counting": replace(COUNTING, judge=suspicious_for(99))})
    assert judgement.verdict == done.verdict
    assert judgement.verdict is not None and judgement.verdict.follow_up is not None
    assert len(done.server.served) == asked
    assert (done.run.path / VERDICTS).exists()


def test_a_judge_that_crashes_leaves_its_traceback_and_no_verdict(tmp_path: Path) -> None:
    def broken(history: CheckHistory) -> Verdict:
        raise ZeroDivisionError("a bug of ours")

    done = run_simulated(COUNTING, tmp_path, budget=BUDGET)
    (judgement,) = judge_run(done.run, {"counting": replace(COUNTING, judge=broken)})
    assert judgement.verdict is None and judgement.traceback is not None
    assert "a bug of ours" in (done.run.path / judgement.traceback).read_text()


def test_a_disturbing_check_of_a_shared_server_was_not_run(tmp_path: Path) -> None:
    done = run_simulated(COUNTING, tmp_path, budget=BUDGET, options={"exclusive_server": False})
    (judgement,) = judge_run(done.run, {"counting": replace(COUNTING, disturbs=True)})
    assert judgement.verdict is not None and judgement.verdict.status is Status.INCONCLUSIVE
    assert "--exclusive-server" in judgement.verdict.reason


def test_a_run_without_checks_cannot_be_judged(tmp_path: Path) -> None:
    done = run_simulated(COUNTING, tmp_path, budget=BUDGET)
    with pytest.raises(StoreError, match="holds no check"):
        judge_run(done.run, {})


@dataclass(frozen=True, slots=True)
class Found:
    """What the capability round should find of a server."""

    server: dict[str, object] = field(default_factory=dict)
    expected: dict[str, object] = field(default_factory=dict)
    exclusive: bool = True


@pytest.mark.parametrize(
    "case",
    [
        Found({}, {"salt": True, "flush": True, "logprobs": 20, "token_id_prompts": True, "cached_tokens": True}),
        Found({"salts": False}, {"salt": False}),
        Found({"flushes": False}, {"flush": False}),
        Found({}, {"flush": None}, exclusive=False),
        Found({"takes_ids": False}, {"token_id_prompts": False}),
        Found({"step": 100_000}, {"salt": None, "flush": None}),
        Found({"report": lambda served: None}, {"cached_tokens": False, "salt": None}),
        Found(
            {"report": lambda served: None if served.stream else 0},
            {"cached_in_stream": False, "cached_in_whole": True},
        ),
    ],
)
def test_capabilities_are_found_by_asking(tmp_path: Path, case: Found) -> None:
    done = run_simulated(COUNTING, tmp_path, budget=BUDGET, exclusive=case.exclusive, **case.server)
    found = {name: getattr(done.capabilities, name) for name in case.expected}
    assert found == case.expected
