"""The judge on hand-written histories: passing, failing, undecidable, empty, with fields missing, zero against None."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from harness.checks.heartbeat.judge import judge
from harness.checks.history import Answer, Capabilities, CheckHistory
from harness.checks.verdict import Status
from harness.records import Complete, ErrorKind, Invoke, Outcome, Record, RequestError, TokenLogprob, Usage
from workloads.heartbeat import AFTER, BEFORE, BETWEEN, LOAD
from workloads.plan import Phase

PROBES, REPEATS, POSITIONS, WORDS = 6, 3, 16, "abcdefghijklmnop"
PROBE_TOKENS = (6, 9, 13, 160, 320, 704)
PHASES = (BEFORE, LOAD, BETWEEN, LOAD, AFTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One answer to be: `shift` nats of noise on its log-probabilities, seeded by `seed`."""

    phase: str
    probe: int
    salted: bool
    repeat: int
    shift: float = 0.0
    seed: int = 0
    cached: int | None = 0
    lost: bool = False
    nan: bool = False
    logprobs: bool = True
    text: str = "as ever"
    finish: str = "length"
    silent: bool = False
    tokens: int = POSITIONS


Change = Callable[[Shot], Shot]


def history(change: Change = lambda shot: shot, phases: Sequence[str] = PHASES, rounds: int = 1) -> CheckHistory:
    shots = [
        Shot(phase=phase, probe=probe, salted=salted, repeat=repeat, cached=64 if repeat and not salted else 0)
        for phase in phases
        for probe in range(PROBES)
        for salted in (False, True)
        for repeat in range(REPEATS)
    ]
    answers = [_answer(number, change(shot)) for number, shot in enumerate(shots)]
    return CheckHistory(answers=tuple(answers), capabilities=Capabilities(engine="vllm"), rounds=rounds)


def _answer(number: int, shot: Shot) -> Answer:
    labels: dict[str, str | int | bool] = {"phase": shot.phase}
    if shot.phase != LOAD:
        labels |= {"probe": shot.probe, "salted": shot.salted, "repeat": shot.repeat}
    invoke = Invoke(
        request_id=f"q{number}", cell="heartbeat-r0", step="ask", key=f"k{number}", planned_ns=0, phase=Phase.MEASURE,
        session=f"probe{shot.probe}", arm=shot.phase, labels=labels, expected_prompt_tokens=PROBE_TOKENS[shot.probe],
    )  # fmt: skip
    error = RequestError(kind=ErrorKind.HTTP_STATUS, message="broken", http_status=500) if shot.lost else None
    done = Complete(
        request_id=f"q{number}",
        outcome=Outcome.UNKNOWN if shot.lost else Outcome.OK,
        error=error,
        text=None if shot.lost else shot.text,
        finish_reason=shot.finish,
        output_tokens=shot.tokens,
        usage=Usage(prompt_tokens=100, completion_tokens=POSITIONS, cached_tokens=shot.cached),
    )
    logprobs = _positions(shot) if shot.logprobs and not shot.lost else None
    if shot.silent:
        logprobs = (TokenLogprob(token="<end>", logprob=None),)
    return Answer(record=Record(invoke=invoke, complete=done), logprobs=logprobs)


def _positions(shot: Shot) -> tuple[TokenLogprob, ...]:
    base = -np.sort(np.random.default_rng(shot.probe).uniform(1.0, 9.0, (POSITIONS, len(WORDS))), axis=1) - 9
    base = base + shot.shift * np.random.default_rng(shot.seed).standard_normal(base.shape)
    found = []
    for position, row in enumerate(base):
        words = WORDS[position:] + WORDS[:position]
        top = tuple((word, float(value)) for word, value in zip(words, row, strict=True))
        found.append(TokenLogprob(token=words[0], logprob=math.nan if shot.nan else top[0][1], top=top))
    return tuple(found)


def when(phase: str, probes: Sequence[int], **fields: float | bool | str | None) -> Change:
    def change(shot: Shot) -> Shot:
        if shot.phase != phase or shot.probe not in probes or not shot.salted:
            return shot
        return replace(shot, **fields)  # type: ignore[arg-type]

    return change


def test_a_server_that_stays_the_same_passes() -> None:
    verdict = judge(history())
    assert verdict.status is Status.PASS, verdict.reason
    assert verdict.examined == verdict.eligible == 2 * 2 * PROBES


def test_its_own_noise_is_forgiven_and_said() -> None:
    def noisy(shot: Shot) -> Shot:
        return replace(shot, shift=0.05, seed=zlib.crc32(f"{shot.phase}/{shot.probe}/{shot.repeat}".encode()))

    verdict = judge(history(noisy))
    assert verdict.status is Status.PASS
    assert 0.5 <= verdict.smallest_effect["change of a probe"] < 1.0


def test_an_empty_history_is_undecided() -> None:
    verdict = judge(history(phases=()))
    assert verdict.status is Status.INCONCLUSIVE and verdict.examined == 0


def test_a_battery_before_load_alone_is_undecided() -> None:
    assert judge(history(phases=(BEFORE, LOAD))).status is Status.INCONCLUSIVE


def test_load_that_never_came_is_not_exercised() -> None:
    verdict = judge(history(lambda shot: replace(shot, lost=shot.phase == LOAD)))
    assert verdict.status is Status.INCONCLUSIVE and "not exercised" in verdict.reason


def test_probes_that_change_and_stay_changed_fail() -> None:
    verdict = judge(history(when(AFTER, [1, 2], shift=2.0, seed=7)))
    assert verdict.status is Status.FAIL and "2 probes stay wrong" in verdict.reason
    assert "another answer than before" in verdict.evidence[0].text


def test_one_probe_that_is_wrong_once_asks_for_another_battery() -> None:
    verdict = judge(history(when(BETWEEN, [1], shift=2.0, seed=7)))
    assert verdict.status is Status.SUSPECT and verdict.follow_up is not None
    again = judge(history(when(BETWEEN, [1], shift=2.0, seed=7), phases=(*PHASES, "again 1"), rounds=2))
    assert again.status is Status.SUSPECT and again.follow_up is None


def test_one_probe_that_is_wrong_twice_fails() -> None:
    def change(shot: Shot) -> Shot:
        return when("again 1", [1], shift=2.0, seed=7)(when(AFTER, [1], shift=2.0, seed=7)(shot))

    assert judge(history(change, phases=(*PHASES, "again 1"), rounds=2)).status is Status.FAIL


def test_one_repeat_that_is_wrong_is_forgiven() -> None:
    def change(shot: Shot) -> Shot:
        return replace(shot, shift=2.0, seed=7) if shot.phase == AFTER and shot.repeat == 1 else shot

    assert judge(history(change)).status is Status.PASS


def test_probes_that_are_lost_after_load_fail() -> None:
    verdict = judge(history(when(AFTER, range(PROBES), lost=True)))
    assert verdict.status is Status.FAIL and "no answer" in verdict.reason


def test_two_answers_that_are_not_a_number_fail_wherever_they_come() -> None:
    assert judge(history(when(BEFORE, [1], nan=True))).status is Status.FAIL
    one = history(
        lambda shot: replace(shot, nan=(shot.phase, shot.probe, shot.repeat, shot.salted) == (AFTER, 1, 0, True))
    )
    assert judge(one).status is Status.PASS


def test_a_server_that_was_dead_before_load_already_fails() -> None:
    def dead(shot: Shot) -> Shot:
        return replace(shot, text="", finish="stop", tokens=1, logprobs=False)

    verdict = judge(history(dead))
    assert verdict.status is Status.FAIL and "nothing before the end token" in verdict.reason
    few = history(lambda shot: dead(shot) if shot.probe < 2 else shot)
    assert judge(few).status is Status.PASS


def test_a_hit_is_held_against_hits_alone() -> None:
    """A cold answer after load, where all before were hits, is nothing to compare; zero cached tokens are cold."""

    def change(shot: Shot) -> Shot:
        cold = shot.phase == AFTER
        return replace(shot, cached=0 if cold else 64, shift=2.0 if cold else 0.0, seed=7)

    verdict = judge(history(change))
    assert verdict.status is Status.PASS and verdict.examined == 2 * PROBES


def test_unreported_cached_tokens_are_compared_as_they_are() -> None:
    assert judge(history(lambda shot: replace(shot, cached=None))).examined == 4 * PROBES


@pytest.mark.parametrize(("text", "status"), [("as ever", Status.PASS), ("other", Status.FAIL)])
def test_without_log_probabilities_texts_are_compared(text: str, status: Status) -> None:
    changed = when(AFTER, [1, 2], text=text)
    assert judge(history(lambda shot: replace(changed(shot), logprobs=False))).status is status


def test_a_noisy_server_is_undecided() -> None:
    verdict = judge(history(lambda shot: replace(shot, shift=0.4, seed=100 * shot.repeat + shot.probe)))
    assert verdict.status is Status.INCONCLUSIVE and "noisy" in verdict.reason


def unsteady(*probes: int, phases: Sequence[str] = (BEFORE, BETWEEN, AFTER)) -> Change:
    """Every answer under a salt is its own, by a nat."""

    def change(shot: Shot) -> Shot:
        if not shot.salted or shot.probe not in probes or shot.phase not in phases:
            return shot
        return replace(shot, shift=1.0, seed=zlib.crc32(f"{shot.phase}/{shot.probe}/{shot.repeat}".encode()))

    return change


def test_short_prompts_that_part_again_and_again_while_long_ones_do_not_fail() -> None:
    verdict = judge(history(unsteady(0, 1, 2)))
    assert verdict.status is Status.FAIL and "what was served before them" in verdict.reason
    assert len(verdict.evidence) == 9 and "tokens computed anew" in verdict.evidence[0].text


@pytest.mark.parametrize(
    "change",
    [unsteady(*range(PROBES)), unsteady(1), unsteady(0, 1, 2, phases=[BEFORE])],
    ids=["noise everywhere", "one probe", "one battery"],
)
def test_other_noise_is_no_leftover(change: Change) -> None:
    assert "served before" not in judge(history(change)).reason


def test_answers_from_the_cache_are_no_leftovers() -> None:
    def change(shot: Shot) -> Shot:
        return replace(unsteady(0, 1, 2)(shot), cached=64 if shot.salted else 0)

    assert "served before" not in judge(history(change)).reason


def test_a_token_without_a_log_probability_where_others_have_one_is_garbage() -> None:
    def change(shot: Shot) -> Shot:
        hit = shot.probe == 5 and not shot.salted and shot.repeat > 0
        return replace(shot, silent=hit, text="" if hit else shot.text, finish="stop" if hit else shot.finish, tokens=1)

    verdict = judge(history(change))
    assert verdict.status is Status.FAIL and "without a log-probability" in verdict.reason


def test_a_server_that_gives_none_at_all_is_not_accused_of_it() -> None:
    verdict = judge(history(lambda shot: replace(shot, silent=True)))
    assert "without a log-probability" not in verdict.reason
