"""Agents as recorded ones are: lengths, pauses, compactions, sub-agents, live answers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.playing import asks_of, play
from workloads import WORKLOADS, WorkloadOptions
from workloads.agent import AgentFamily, AgentSpec
from workloads.agent_profile import AgentProfile, recorded_profile
from workloads.agent_shape import SessionShape, whole_session
from workloads.plan import Ask, ChatPrompt, Observation, Phase, ToolCall, Wait
from workloads.quantiles import QuantileTable, fit_table
from workloads.sessions import Session, SessionGenerator, Turn, trimmed
from workloads.text import approximate_count, prompt_tokens
from workloads.transcript import CLEARED


@pytest.fixture(scope="module", params=[0, 1, 2])
def shapes(request: pytest.FixtureRequest) -> list[SessionShape]:
    return [whole_session(recorded_profile(), request.param, index) for index in range(500)]


def values_of(shapes: list[SessionShape]) -> dict[str, list[float]]:
    later = [call for shape in shapes for call in shape.calls[1:]]
    return {
        "calls_per_session": [len(shape.calls) for shape in shapes],
        "first_input_tokens": [shape.calls[0].input_tokens for shape in shapes],
        "last_input_tokens": [shape.calls[-1].input_tokens for shape in shapes],
        "new_after_tool_tokens": [call.new_tokens for call in later if call.kind == "tool" and call.new_tokens > 0],
        "new_after_user_tokens": [call.new_tokens for call in later if call.kind == "user" and call.new_tokens > 0],
        "think_before_tool_s": [call.think_s for call in later if call.kind == "tool"],
        "think_before_user_s": [call.think_s for call in later if call.kind == "user"],
    }


def test_500_sessions_are_as_the_recorded_ones_at_the_median_and_the_90th_percentile(
    shapes: list[SessionShape],
) -> None:
    for name, values in values_of(shapes).items():
        ours, recorded = fit_table(values), getattr(recorded_profile(), name)
        for share in (0.5, 0.9):
            assert ours.at(share) == pytest.approx(recorded.at(share), rel=0.12), (name, share)


def test_each_call_shares_its_prefix_with_the_one_before(shapes: list[SessionShape]) -> None:
    shares = sorted((call.prefix_tokens or 0) / call.input_tokens for s in shapes for call in s.calls[1:])
    assert shares[len(shares) // 2] == pytest.approx(0.9927, abs=0.01)
    assert all(0 <= share <= 1 for share in shares)


def test_compaction_is_as_rare_as_recorded(shapes: list[SessionShape]) -> None:
    pairs = [pair for shape in shapes for pair in itertools.pairwise(shape.calls)]
    shrunk = sum(later.input_tokens < 0.8 * earlier.input_tokens for earlier, later in pairs) / len(pairs)
    assert shrunk == pytest.approx(recorded_profile().shrink_share, rel=0.25)


def test_a_profile_survives_json() -> None:
    profile = recorded_profile()
    assert AgentProfile.from_json(profile.as_json()).as_json() == profile.as_json()
    with pytest.raises(ValueError, match="calls_per_session"):
        AgentProfile.from_json({**profile.as_json(), "calls_per_session": None})


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200))
def test_a_fitted_table_never_falls_and_keeps_its_ends(values: list[float]) -> None:
    table = fit_table(values)
    drawn = [table.at(share / 50) for share in range(51)]
    assert drawn == sorted(drawn)
    assert (drawn[0], drawn[-1]) == (min(values), max(values))


def test_the_last_interval_is_bent_so_that_the_mean_is_kept() -> None:
    values = [float(i) for i in range(1000)] + [1e6]
    table = fit_table(values)
    drawn = [table.at((i + 0.5) / 100_000) for i in range(100_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(sum(values) / len(values), rel=0.05)


@pytest.mark.parametrize("data", [None, {"n": 1, "mean": 2.0}, {"n": "x", "mean": 1, "quantiles": [1, 2]}])
def test_a_table_that_is_none_is_refused(data: Any) -> None:
    with pytest.raises(ValueError):
        QuantileTable.from_json(data, (0, 100))


def agents(**more: Any) -> SessionGenerator:
    options: dict[str, Any] = {"seed": 5, "requests": 64, "highest_concurrency": 8, **more}
    return WORKLOADS["agent"](WorkloadOptions(**options), approximate_count)


def measured(**more: Any) -> list[Ask]:
    return sorted((ask for ask in asks_of(play(agents(**more))) if ask.phase is Phase.MEASURE), key=lambda ask: ask.key)


def chat(ask: Ask) -> ChatPrompt:
    assert isinstance(ask.prompt, ChatPrompt)
    return ask.prompt


def test_sub_agents_share_system_prompt_and_tools_with_their_parent() -> None:
    asks = measured(sub_agents=0.5)
    subs = [ask for ask in asks if ask.labels.get("agent") in ("sub1", "sub2")]
    assert len(asks) == 64 and 5 < len(subs) < 60
    main = next(ask for ask in asks if not ask.labels)
    for ask in subs:
        assert chat(ask).messages[0] == chat(main).messages[0] and chat(ask).tools == chat(main).tools
        assert chat(ask).messages[1] != chat(main).messages[1]


def test_two_sub_agents_run_at_once_and_their_parent_waits_for_both() -> None:
    plan = agents(sub_agents=1.0, requests=60, highest_concurrency=1, turns=12, warmups=0)
    who = {ask.key: (str(ask.session), str(ask.labels.get("agent", "main"))) for ask in asks_of(play(plan))}
    together = 0
    in_flight: list[str] = []
    for kind, key, _ in play(plan, at_once=8):
        if kind == "answer":
            in_flight.remove(key)
        elif kind == "ask":
            mates = [who[each][1] for each in in_flight if who[each][0] == who[key][0]]
            assert "main" not in mates and (who[key][1] != "main" or not mates)
            assert who[key][1] not in mates
            together += bool(mates)
            in_flight.append(key)
    assert together > 5


def test_compaction_replaces_the_transcript_by_a_summary() -> None:
    asks = measured(compaction=1.0)
    for earlier, later in itertools.pairwise(asks):
        if earlier.session == later.session:
            assert len(chat(later).messages) == 2 and "summary" in (chat(later).messages[1].content or "")
            assert prompt_tokens(later.prompt, approximate_count) < 800


def test_whole_sessions_grow_call_by_call_to_their_recorded_lengths() -> None:
    asks = measured(whole_sessions=True, requests=150, highest_concurrency=2, input_tokens=2048)
    assert len(asks) == 150 and len({ask.session for ask in asks}) >= 2
    lengths = [prompt_tokens(ask.prompt, approximate_count) for ask in asks]
    assert lengths == [ask.expected_prompt_tokens for ask in asks]
    assert max(lengths) > 3 * min(lengths)


def test_old_tool_results_are_cleared_in_place(shapes: list[SessionShape]) -> None:
    cleared = [call for shape in shapes for call in shape.calls if call.cleared]
    assert len(cleared) > 0 and not any(call.compacted for call in cleared)
    family = AgentFamily(AgentSpec(seed=0, context_tokens=2048, whole=True), recorded_profile(), approximate_count)
    sessions = [family.session("measure", index, 1) for index in range(12)]
    found = 0
    for earlier, later in (pair for each in sessions for pair in itertools.pairwise(each.turns)):
        assert isinstance(earlier.prompt, ChatPrompt) and isinstance(later.prompt, ChatPrompt)
        pairs = list(zip(earlier.prompt.messages, later.prompt.messages, strict=False))
        changed = [(one, two) for one, two in pairs if one != two]
        if len(later.prompt.messages) > len(earlier.prompt.messages) and changed:
            found += 1
            assert later.kept_messages is None
            assert all(two.role == "tool" and (two.content or "").startswith(CLEARED) for _, two in changed)
            assert prompt_tokens(later.prompt, approximate_count) == later.expected_prompt_tokens
    assert found >= 3


def test_natural_contexts_have_natural_definitions_and_drawn_answers() -> None:
    asks = measured(input_tokens=65_536, requests=4, highest_concurrency=1)
    shared = prompt_tokens(
        ChatPrompt(messages=chat(asks[0]).messages[:1], tools=chat(asks[0]).tools), approximate_count
    )
    assert shared == pytest.approx(12_262 + 2_772, rel=0.05)
    assert len({ask.max_tokens for ask in asks}) > 1


def play_live(answer: Observation) -> list[Ask]:
    plan = agents(live=True, requests=6, highest_concurrency=1, turns=6, warmups=0)
    assert plan.reacts and plan.spec()["assistant"] == "live"
    state, observation, asks = plan.start(), None, []
    for _ in range(40):
        state, step = plan.next(state, observation, 0)
        observation = None
        if isinstance(step, Ask):
            asks.append(step)
        if isinstance(step, Wait):
            fields = {name: getattr(answer, name) for name in ("outcome", "text", "tool_calls")}
            observation = Observation(key=asks[-1].key, **fields)
    return asks


def test_live_sessions_send_the_models_own_words_back() -> None:
    asks = play_live(Observation(key="", outcome="ok", text="I think so."))
    for earlier, later in itertools.pairwise(asks):
        sent = len(chat(earlier).messages)
        assert chat(later).messages[:sent] == chat(earlier).messages
        assert chat(later).messages[sent].content == "I think so." and not chat(later).messages[sent].tool_calls
        assert all(message.role == "user" for message in chat(later).messages[sent + 1 :])


def test_live_tool_calls_get_a_result_each() -> None:
    calls = tuple(ToolCall(call_id=name, name="read_file", arguments="{}") for name in ("a", "b"))
    asks = play_live(Observation(key="", outcome="ok", text=None, tool_calls=calls))
    for earlier, later in itertools.pairwise(asks):
        added = chat(later).messages[len(chat(earlier).messages) :]
        assert added[0].tool_calls == calls
        assert [message.tool_call_id for message in added[1:3]] == ["a", "b"]


def test_a_live_session_falls_back_on_the_script_when_no_answer_came() -> None:
    asks = play_live(Observation(key="", outcome="refused"))
    scripted = asks_of(play(agents(requests=6, highest_concurrency=1, turns=6, warmups=0)))
    assert [ask.prompt for ask in asks] == [ask.prompt for ask in scripted]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(1, 40))
def test_sessions_are_trimmed_to_the_asked_number_of_requests(lengths: list[int], requests: int) -> None:
    turn = Turn(prompt=PROMPT, max_tokens=1, expected_prompt_tokens=1)
    sessions = [Session(turns=(turn,) * length) for length in lengths]
    kept = [len(session.turns) for session in trimmed(sessions, requests)]
    assert sum(kept) == min(requests, sum(lengths))


PROMPT = chat(measured(requests=1, highest_concurrency=1)[0])
