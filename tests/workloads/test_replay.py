"""A trace sent again: its order, its times, and the prefixes that its hashes say."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.reference.tokenizer import Tokenizer
from tests.workloads.playing import asks_of, play
from workloads.options import WorkloadOptions
from workloads.plan import Ask, ChatPrompt, Observation, Phase, TextPrompt, Wait
from workloads.readers import read_trace
from workloads.replay import ReplayOptions, replay_trace
from workloads.sessions import SessionGenerator
from workloads.text import approximate_count
from workloads.trace import Trace, TracedRequest
from workloads.trace_stats import infinite_cache_token_hit

TRACES = Path(__file__).resolve().parents[1] / "fixtures" / "traces"
ENGINE = Tokenizer.load()
NS = 1_000_000_000


def count(text: str) -> int:
    return len(ENGINE.encode(text))


def mooncake() -> Trace:
    return read_trace([("m", (TRACES / "mooncake_head.jsonl").read_text())], "mooncake")


def plan_of(trace: Trace, replay: ReplayOptions, **more: object) -> SessionGenerator:
    options = WorkloadOptions(**{"seed": 1, "requests": None, "highest_concurrency": 4, "warmups": 0, **more})  # type: ignore[arg-type]
    return replay_trace(trace, options, replay, count, chat=False)


def sent(plan: SessionGenerator) -> list[Ask]:
    return [ask for ask in asks_of(play(plan, at_once=100)) if ask.phase is Phase.MEASURE]


def as_trace(asks: list[Ask]) -> Trace:
    requests = [
        TracedRequest(session=ask.key, turn=0, prompt=ask.prompt, input_tokens=ask.expected_prompt_tokens)
        for ask in asks
    ]
    return Trace(format="sent", source="sent", requests=tuple(requests))


def test_text_made_of_hashes_has_the_recorded_lengths_and_shares_what_they_share() -> None:
    trace = mooncake()
    asks = sent(plan_of(trace, ReplayOptions()))
    assert [ask.expected_prompt_tokens for ask in asks] == [request.input_tokens for request in trace.requests]
    assert [ask.max_tokens for ask in asks] == [request.output_tokens for request in trace.requests]
    for ask in asks[:5]:
        assert isinstance(ask.prompt, TextPrompt) and count(ask.prompt.text) == ask.expected_prompt_tokens
    recorded, ours = infinite_cache_token_hit(trace), infinite_cache_token_hit(as_trace(asks))
    assert ours == pytest.approx(recorded, abs=0.005)


def test_requests_are_due_at_the_traces_times_divided_by_the_speed() -> None:
    trace = read_trace([("a", (TRACES / "azure_head.csv").read_text())], "azure")
    asks = sent(plan_of(trace, ReplayOptions(timed=True, speed=4.0)))
    due = [ask.planned_ns or 0 for ask in asks]
    assert due == sorted(due)
    assert due == pytest.approx([round((request.at_s or 0) / 4 * NS) for request in trace.requests], abs=2)


def test_a_turn_waits_for_its_own_time_and_for_the_answer_before_it() -> None:
    requests = tuple(TracedRequest(session="s", turn=turn, at_s=10.0 * turn, input_tokens=5) for turn in range(3))
    plan = plan_of(Trace(format="x", source="x", requests=requests), ReplayOptions(timed=True))
    state, now_ns, observation, due = plan.start(), 0, None, []
    for _ in range(12):
        state, step = plan.next(state, observation, now_ns)
        observation = None
        if isinstance(step, Ask):
            due.append(now_ns // NS)
            now_ns += (3 if step.turn == 0 else 14) * NS
            observation = Observation(key=step.key, outcome="ok")
        if isinstance(step, Wait) and step.until_ns is not None:
            now_ns = step.until_ns
    assert due == [0, 10, 24]


def test_the_first_requests_or_seconds_can_be_chosen() -> None:
    assert len(sent(plan_of(mooncake(), ReplayOptions(), requests=7))) == 7
    first = sent(plan_of(mooncake(), ReplayOptions(limit_s=3.0)))
    assert 0 < len(first) < 60
    with pytest.raises(ValueError, match="nothing"):
        plan_of(mooncake(), ReplayOptions(limit_s=0.0))


def test_recorded_dialogues_are_sent_turn_by_turn() -> None:
    said = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}] * 2
    trace = read_trace([("s", str([{"id": 1, "conversations": said}]).replace("'", '"'))], "sharegpt")
    first, second = sent(plan_of(trace, ReplayOptions()))
    assert isinstance(first.prompt, ChatPrompt) and isinstance(second.prompt, ChatPrompt)
    assert second.prompt.messages[:1] == first.prompt.messages and len(second.prompt.messages) == 3
    assert (first.session, first.turn, second.turn) == (second.session, 0, 1)


def test_sessions_of_lengths_alone_share_their_own_prefix() -> None:
    requests = [TracedRequest(session="s", turn=turn, input_tokens=length) for turn, length in enumerate((900, 1800))]
    asks = sent(plan_of(Trace(format="x", source="x", requests=tuple(requests)), ReplayOptions()))
    one, two = (ask.prompt.text for ask in asks if isinstance(ask.prompt, TextPrompt))
    assert two.startswith(one[: len(one) // 2])


def test_approximate_counts_serve_where_there_is_no_tokenizer() -> None:
    options = WorkloadOptions(seed=1, requests=5, highest_concurrency=4)
    plan = replay_trace(mooncake(), options, ReplayOptions(), approximate_count, chat=True)
    assert len(sent(plan)) == 5
