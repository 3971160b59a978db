"""The nonce comes before anything a cache could already hold."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from harness.drive import new_nonce, with_nonce
from workloads.plan import ChatPrompt, Message, TextPrompt, TokenPrompt, ToolCall

NONCE = new_nonce("run", "cell", 0)


def test_a_nonce_is_new_for_every_run_cell_and_attempt() -> None:
    paths = [("r1", "c1", 0), ("r1", "c1", 1), ("r1", "c2", 0), ("r2", "c1", 0)]
    assert len({new_nonce(*path) for path in paths}) == 4
    assert new_nonce("r1", "c1", 0) == new_nonce("r1", "c1", 0)


def test_a_chat_begins_with_it() -> None:
    prompt = ChatPrompt(messages=(Message(role="system", content="Be brief."), Message(role="user", content="Hi")))
    marked = with_nonce(prompt, NONCE)
    assert isinstance(marked, ChatPrompt)
    assert marked.messages[0] == Message(role="system", content=f"[{NONCE}]\nBe brief.")
    assert marked.messages[1:] == prompt.messages[1:]


def test_a_first_message_without_content_gets_some() -> None:
    call = ToolCall(call_id="1", name="f", arguments="{}")
    marked = with_nonce(ChatPrompt(messages=(Message(role="assistant", content=None, tool_calls=(call,)),)), NONCE)
    assert isinstance(marked, ChatPrompt)
    assert marked.messages[0].content == f"[{NONCE}]\n"
    assert marked.messages[0].tool_calls == (call,)


def test_tools_rendered_before_the_messages_carry_it_too() -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "Does it.", "parameters": {}}}
    prompt = ChatPrompt(messages=(Message(role="user", content="Hi"),), tools=(tool, tool))
    marked = with_nonce(prompt, NONCE)
    assert isinstance(marked, ChatPrompt)
    function = marked.tools[0]["function"]
    assert isinstance(function, dict)
    assert json.dumps(marked.tools[0]).startswith('{"function": {"description": "[')
    assert function == {"name": "f", "description": f"[{NONCE}] Does it.", "parameters": {}}
    assert marked.tools[1] == tool


def test_a_text_begins_with_it() -> None:
    assert with_nonce(TextPrompt(text="Once"), NONCE) == TextPrompt(text=f"[{NONCE}]\nOnce")


@given(ids=st.lists(st.integers(0, 511), min_size=1, max_size=300).map(tuple))
def test_token_ids_keep_their_number_and_their_alphabet(ids: tuple[int, ...]) -> None:
    marked = with_nonce(TokenPrompt(token_ids=ids), NONCE)
    assert isinstance(marked, TokenPrompt)
    assert len(marked.token_ids) == len(ids)
    assert set(marked.token_ids) <= set(ids)
    assert marked.token_ids[64:] == ids[64:]


def test_token_ids_begin_differently_for_every_nonce() -> None:
    prompt = TokenPrompt(token_ids=tuple(range(100, 400)))
    starts = set()
    for number in range(50):
        marked = with_nonce(prompt, new_nonce("run", "cell", number))
        assert isinstance(marked, TokenPrompt)
        starts.add(marked.token_ids[:8])
    assert len(starts) == 50
