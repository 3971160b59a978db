"""When answers are read, and what a generator learns of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.records import Outcome
from tests.drive.fakes import MS, Listed, Script, ask
from tests.drive.running import cell_spec, run
from workloads.plan import Done, Observation, Step, Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching(Listed):
    """Keeps every observation it is given."""

    seen: list[Observation] = field(default_factory=list)

    def next(self, state: int, observation: Observation | None, now_ns: int) -> tuple[int, Step | Wait | Done]:
        if observation is not None:
            self.seen.append(observation)
        return Listed.next(self, state, observation, now_ns)


def test_a_generator_that_reacts_sees_what_came() -> None:
    plan = Watching(steps=(ask("a"), ask("b")), reacts=True)
    run(plan, cell_spec(1))
    assert [each.key for each in plan.seen] == ["a", "b"]
    first = plan.seen[0]
    assert (first.outcome, first.prompt_tokens, first.cached_tokens, first.output_tokens) == ("ok", 20, 8, 5)
    assert first.text == "x x x x x "
    assert first.ttft_ns == pytest.approx(50 * MS, rel=1e-3)


def test_a_generator_that_reacts_learns_of_refusals() -> None:
    plan = Watching(steps=(ask("a"),), reacts=True)
    run(plan, cell_spec(1), lambda request: Script(status=429))
    assert plan.seen == [Observation(key="a", outcome="refused")]


def test_a_generator_that_does_not_react_is_not_kept_waiting_for_the_reading() -> None:
    plan = Watching(steps=tuple(ask(f"k{number}") for number in range(30)))
    ran = run(plan, cell_spec(4))
    assert {each.outcome for each in plan.seen} == {"unread"}
    assert [complete.outcome for complete in ran.history.completes] == [Outcome.OK] * 30
    assert ran.closing.ok == len(ran.progress.finished) == 30


def test_too_many_unread_answers_are_read_before_more_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(reader: Any) -> None:
        return

    monkeypatch.setattr("harness.drive.reader.Reader.watch", never)
    plan = Watching(steps=tuple(ask(f"k{number}") for number in range(30)))
    ran = run(plan, cell_spec(2))
    assert [each.outcome for each in plan.seen].count("unread") == 8
    assert ran.closing.ok == 30
