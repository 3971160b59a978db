"""Addresses as people type them, and requests as servers get them."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
import pytest

from harness.endpoint.encode import chat_as_text, encode_request
from harness.endpoint.target import EndpointType, Target, Timeouts
from harness.endpoint.url import normalise_base_url
from workloads.plan import Ask, ChatPrompt, Json, Message, Prompt, TextPrompt, TokenPrompt, ToolCall

CHAT = ChatPrompt(
    messages=(
        Message(role="user", content="hi"),
        Message(role="assistant", content=None, tool_calls=(ToolCall(call_id="c", name="f", arguments="{}"),)),
        Message(role="tool", content="3", tool_call_id="c"),
    ),
    tools=({"type": "function"},),
)


def body_of(prompt: Prompt, route: EndpointType, sampling: dict[str, Json] | None = None, **fields: Any) -> Any:
    target = Target(base=normalise_base_url("h"), model="m", endpoint_type=route)
    ask = Ask(key="k", prompt=prompt, max_tokens=7, **fields)
    return orjson.loads(encode_request(ask, target, sampling if sampling is not None else {}, "r1").body)


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("http://host:8000", "http://host:8000"),
        ("http://host:8000/", "http://host:8000"),
        ("http://host:8000/v1", "http://host:8000"),
        ("https://host/v1/", "https://host"),
        ("host:8000/v1", "http://host:8000"),
        ("https://gateway.example/openai/v1/chat/completions", "https://gateway.example/openai"),
        ("http://user:pw@host/v1", "http://host"),
        ("http://[::1]:80/v1", "http://[::1]:80"),
    ],
)
def test_a_base_url_with_or_without_v1(text: str, root: str) -> None:
    base = normalise_base_url(text)
    assert (base.root, str(base)) == (root, root)


@pytest.mark.parametrize("text", ["", "ftp://host", "http://", "http://host:99999", "http://host?x=1", "http://host:0"])
def test_a_bad_base_url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="base URL"):
        normalise_base_url(text)


def test_userinfo_becomes_basic_authentication() -> None:
    target = Target(base=normalise_base_url("http://me:p%40ss@host"), model="m")
    assert target.request_headers() == {"Authorization": "Basic bWU6cEBzcw=="}


def test_a_chat_request() -> None:
    body = body_of(CHAT, "chat", {"temperature": 0})
    assert body == {
        "messages": [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "content": "3", "tool_call_id": "c"},
        ],
        "tools": [{"type": "function"}],
        "model": "m",
        "max_tokens": 7,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
    }


def test_a_completions_request_takes_text_ids_and_chats() -> None:
    assert body_of(TextPrompt(text="a"), "completions")["prompt"] == "a"
    assert body_of(TokenPrompt(token_ids=(1, 2)), "completions")["prompt"] == [1, 2]
    assert body_of(CHAT, "completions")["prompt"] == chat_as_text(CHAT)
    assert body_of(TextPrompt(text="a"), "chat")["messages"] == [{"role": "user", "content": "a"}]


def test_an_earlier_turn_is_a_prefix_of_the_next_as_text() -> None:
    longer = ChatPrompt(messages=(*CHAT.messages, Message(role="user", content="more")), tools=CHAT.tools)
    assert chat_as_text(longer).startswith(chat_as_text(CHAT))


def test_token_ids_on_the_chat_route_are_a_usage_error() -> None:
    with pytest.raises(ValueError, match="completions"):
        body_of(TokenPrompt(token_ids=(1,)), "chat")


def test_a_parameter_of_the_request_wins_and_may_not_replace_the_prompt() -> None:
    body = body_of(TextPrompt(text="a"), "completions", {"top_p": 1, "seed": 1}, parameters={"seed": 2})
    assert (body["top_p"], body["seed"]) == (1, 2)
    with pytest.raises(ValueError, match="messages"):
        body_of(TextPrompt(text="a"), "chat", {"messages": []})
    assert "max_tokens" not in body_of(TextPrompt(text="a"), "chat", {"max_completion_tokens": 5})


def test_a_request_that_is_not_streamed_asks_for_no_usage_chunk() -> None:
    body = body_of(TextPrompt(text="a"), "completions", stream=False)
    assert body["stream"] is False
    assert "stream_options" not in body


def test_prompt_and_parameters_are_kept_apart() -> None:
    target = Target(base=normalise_base_url("h"), model="m", endpoint_type="completions")
    ask = Ask(key="k", prompt=TextPrompt(text="Grüße"), max_tokens=7)
    request = encode_request(ask, target, {}, "r1")
    assert orjson.loads(request.prompt) == {"prompt": "Grüße"}
    assert request.prompt_hash == hashlib.sha256(request.prompt).hexdigest()
    assert orjson.loads(request.body) == {"prompt": "Grüße", **request.parameters}
    assert request.headers["X-Request-Id"] == "r1"
    assert request.path == "/v1/completions"


def test_timeouts_are_above_zero() -> None:
    with pytest.raises(ValueError, match="stall_s"):
        Timeouts(stall_s=0)
