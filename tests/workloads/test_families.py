"""What each workload sends."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from tests.workloads.playing import asks_of, play
from workloads import WORKLOADS, WorkloadOptions
from workloads.agent_talk import TOOLS
from workloads.plan import Ask, ChatPrompt, Phase, TokenPrompt
from workloads.text import CountTokens, approximate_count, prompt_tokens


def two_chars(text: str) -> int:
    return -(-len(text) // 2)


def measured(name: str, count: CountTokens = approximate_count, **more: Any) -> list[Ask]:
    options: dict[str, Any] = {"seed": 5, "requests": 64, "highest_concurrency": 16, **more}
    asks = asks_of(play(WORKLOADS[name](WorkloadOptions(**options), count)))
    return sorted((ask for ask in asks if ask.phase is Phase.MEASURE), key=lambda ask: ask.key)


def chat(ask: Ask) -> ChatPrompt:
    assert isinstance(ask.prompt, ChatPrompt)
    return ask.prompt


def shared_prefix(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def contents(ask: Ask) -> str:
    return "\n".join(message.content or "" for message in chat(ask).messages)


def test_agent_sessions_resend_a_growing_transcript() -> None:
    asks = measured("agent")
    for earlier, later in itertools.pairwise(asks):
        if earlier.session == later.session:
            sent = chat(earlier).messages
            assert chat(later).messages[: len(sent)] == sent
            assert len(chat(later).messages) == len(sent) + 2


def test_agent_sessions_share_system_prompt_and_tools_and_nothing_else() -> None:
    asks = [ask for ask in measured("agent") if ask.turn == 0]
    assert len({chat(ask).messages[0] for ask in asks}) == 1
    assert len({json.dumps(chat(ask).tools) for ask in asks}) == 1
    assert len({chat(ask).messages[1:] for ask in asks}) == len(asks)


def test_agent_messages_follow_the_protocol() -> None:
    for ask in measured("agent"):
        messages = chat(ask).messages
        names = {str(tool["function"]["name"]) for tool in chat(ask).tools}  # type: ignore[call-overload,index]
        assert [message.role for message in messages[:2]] == ["system", "user"]
        assert messages[-1].role in {"tool", "user"}
        for earlier, later in itertools.pairwise(messages):
            if later.role == "tool":
                (call,) = earlier.tool_calls
                assert later.tool_call_id == call.call_id and later.content
                assert call.name in names and json.loads(call.arguments)
            if earlier.tool_calls:
                assert later.role == "tool"


@pytest.mark.parametrize("count", [approximate_count, two_chars])
@pytest.mark.parametrize("context_tokens", [1536, 8192])
def test_agent_prompts_have_the_asked_mean_length_in_any_tokenizer(count: CountTokens, context_tokens: int) -> None:
    asks = measured("agent", count, input_tokens=context_tokens)
    lengths = [prompt_tokens(ask.prompt, count) for ask in asks]
    assert lengths == [ask.expected_prompt_tokens for ask in asks]
    assert sum(lengths) / len(lengths) == pytest.approx(context_tokens, rel=0.12)


def test_a_short_agent_cell_is_as_deep_as_a_long_one() -> None:
    starts = [ask.expected_prompt_tokens or 0 for ask in measured("agent", requests=512) if ask.turn == 0]
    for few in (8, 16, 32):
        assert sum(starts[:few]) / few == pytest.approx(sum(starts) / len(starts), rel=0.12)
        assert min(starts[:few]) < 900 and max(starts[:few]) > 1550


def test_agent_tool_results_come_in_every_kind() -> None:
    asks = measured("agent", input_tokens=16384, requests=16)
    called = {call.name for ask in asks for message in chat(ask).messages for call in message.tool_calls}
    assert called >= {tool.name for tool in TOOLS}


def test_repeat_alternates_one_prompt_and_its_prefix_with_other_tails() -> None:
    asks = measured("repeat")
    same, varied = asks[::2], asks[1::2]
    assert len({ask.prompt for ask in same}) == 1
    assert len({ask.prompt for ask in varied}) == len(varied)
    for ask in varied:
        share = shared_prefix(contents(ask), contents(same[0])) / len(contents(same[0]))
        assert 0.88 < share < 0.97
    assert same[0].expected_prompt_tokens == pytest.approx(1536, abs=24)


def test_the_first_warm_up_of_repeat_is_the_prompt_itself() -> None:
    asks = asks_of(play(WORKLOADS["repeat"](WorkloadOptions(seed=5, requests=8, highest_concurrency=1), two_chars)))
    assert asks[0].phase is Phase.WARMUP
    assert asks[0].prompt == next(ask.prompt for ask in asks if ask.phase is Phase.MEASURE)


@pytest.mark.parametrize("count", [approximate_count, two_chars, lambda text: len(text.split())])
@pytest.mark.parametrize("tokens", [1, 7, 200])
def test_random_prompts_have_exactly_the_asked_length(count: CountTokens, tokens: int) -> None:
    asks = measured("random", count, input_tokens=tokens, output_tokens=9, requests=16)
    assert {count(contents(ask)) for ask in asks} == {tokens}
    assert {ask.max_tokens for ask in asks} == {9}
    assert all(tokens <= (ask.expected_prompt_tokens or 0) <= tokens + 20 for ask in asks)


def test_random_prompts_share_nothing() -> None:
    asks = measured("random", input_tokens=200)
    texts = sorted(contents(ask) for ask in asks)
    assert max(shared_prefix(one, other) for one, other in itertools.pairwise(texts)) < 40


def test_random_token_ids_stay_in_their_range() -> None:
    asks = measured("random", input_tokens=50, token_id_range=(10, 19))
    for ask in asks:
        assert isinstance(ask.prompt, TokenPrompt)
        assert len(ask.prompt.token_ids) == 50 and set(ask.prompt.token_ids) <= set(range(10, 20))


def test_text_prompts_are_questions_of_many_lengths() -> None:
    asks = measured("text")
    lengths = sorted(ask.expected_prompt_tokens or 0 for ask in asks)
    assert lengths[0] < 80 and lengths[-1] > 800
    assert lengths[32] == pytest.approx(200, rel=0.25)
    assert all(contents(ask).rstrip().endswith(("?", "why?")) for ask in asks)
