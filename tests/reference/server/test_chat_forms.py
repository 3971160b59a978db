"""Tool calls, response formats and reasoning, in every dialect, streamed and not."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.reference.server.serving import Site, events, post, server_options, serving

DIALECTS = ["vllm", "sglang", "llamacpp"]
REASONING_FIELD = {"vllm": "reasoning", "sglang": "reasoning_content", "llamacpp": "reasoning_content"}
PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Paris", "Oslo"]},
        "days": {"type": "integer"},
        "notes": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city", "days"],
}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "stop", "parameters": {"type": "object", "properties": {}}}},
]
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Weather?"}], "max_tokens": 300, "seed": 3}
NAMED = {"type": "function", "function": {"name": "get_weather"}}


def run(dialect: str, check: Any, **options: object) -> None:
    async def whole() -> None:
        async with serving(server_options(dialect=dialect, **options)) as site:
            await check(site)

    asyncio.run(whole())


def gathered(stream: list[Any]) -> dict[str, Any]:
    """A streamed chat put together again."""
    message: dict[str, Any] = {"calls": {}, "text": {}, "finish": None}
    for event in stream:
        for choice in event["choices"] if isinstance(event, dict) else ():
            message["finish"] = choice["finish_reason"] or message["finish"]
            for call in choice["delta"].get("tool_calls") or ():
                known = message["calls"].setdefault(call["index"], {"name": "", "arguments": ""})
                known["name"] += call["function"].get("name") or ""
                known["arguments"] += call["function"]["arguments"]
            for key in ("content", "reasoning", "reasoning_content"):
                message["text"][key] = message["text"].get(key, "") + (choice["delta"].get(key) or "")
    return message


def check_arguments(name: str, text: str) -> None:
    arguments = json.loads(text)
    if name == "get_weather":
        assert arguments["city"] in ("Paris", "Oslo") and isinstance(arguments["days"], int)
        assert set(arguments) <= {"city", "days", "notes"}
    else:
        assert arguments == {}


@pytest.mark.parametrize("drafts", [0, 2])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_required_call_is_valid_streamed_and_not(dialect: str, drafts: int) -> None:
    async def check(site: Site) -> None:
        body = {**CHAT, "tools": TOOLS, "tool_choice": "required"}
        _, answer = await post(site, "/v1/chat/completions", body)
        choice: Any = answer["choices"][0]  # type: ignore[index]
        assert choice["finish_reason"] == "tool_calls"
        function = choice["message"]["tool_calls"][0]["function"]
        check_arguments(function["name"], function["arguments"])
        assert not choice["message"]["content"]
        streamed = gathered(await events(site, "/v1/chat/completions", body))
        assert streamed["finish"] == "tool_calls"
        assert streamed["calls"] == {0: function}

    run(dialect, check, speculative_tokens=drafts, chunk=64)


@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
def test_a_named_tool_is_the_one_called(dialect: str) -> None:
    async def check(site: Site) -> None:
        body = {**CHAT, "tools": TOOLS, "tool_choice": NAMED}
        _, answer = await post(site, "/v1/chat/completions", body)
        choice: Any = answer["choices"][0]  # type: ignore[index]
        assert choice["message"]["tool_calls"][0]["function"]["name"] == "get_weather"
        unknown = {"type": "function", "function": {"name": "nope"}}
        status, error = await post(site, "/v1/chat/completions", {**body, "tool_choice": unknown})
        assert status == 400 and "tool" in str(error).lower()

    run(dialect, check)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_reasoning_comes_first_and_in_its_own_field(dialect: str) -> None:
    field = REASONING_FIELD[dialect]

    async def check(site: Site) -> None:
        body = {**CHAT, "max_tokens": 60, "chat_template_kwargs": {"enable_thinking": True}, "ignore_eos": True}
        _, answer = await post(site, "/v1/chat/completions", body)
        message: Any = answer["choices"][0]["message"]  # type: ignore[index]
        assert message[field] and message["content"]
        assert "</think>" not in message[field]
        streamed = gathered(await events(site, "/v1/chat/completions", body))
        assert streamed["text"][field] == message[field]
        assert streamed["text"]["content"] == message["content"]

    run(dialect, check)


def test_reasoning_may_end_in_a_tool_call() -> None:
    async def check(site: Site) -> None:
        body = {**CHAT, "tools": TOOLS, "tool_choice": "required", "chat_template_kwargs": {"enable_thinking": True}}
        _, answer = await post(site, "/v1/chat/completions", body)
        message: Any = answer["choices"][0]["message"]  # type: ignore[index]
        assert message["reasoning"] and message["content"] is None
        function = message["tool_calls"][0]["function"]
        check_arguments(function["name"], function["arguments"])
        usage: Any = answer["usage"]
        assert 0 < usage["completion_tokens_details"]["reasoning_tokens"] <= 32

    run("vllm", check)


def test_an_answer_of_reasoning_alone_is_content_for_sglang_when_not_streamed() -> None:
    async def check(site: Site) -> None:
        body = {**CHAT, "max_tokens": 5, "chat_template_kwargs": {"enable_thinking": True}, "ignore_eos": True}
        _, answer = await post(site, "/v1/chat/completions", body)
        message: Any = answer["choices"][0]["message"]  # type: ignore[index]
        streamed = gathered(await events(site, "/v1/chat/completions", body))
        assert message["content"] == streamed["text"]["reasoning_content"]
        assert message["reasoning_content"] is None

    run("sglang", check)


def test_a_response_format_holds_the_answer_to_its_schema() -> None:
    async def check(site: Site) -> None:
        wanted = {"type": "json_schema", "json_schema": {"name": "w", "schema": PARAMETERS}}
        _, answer = await post(site, "/v1/chat/completions", {**CHAT, "response_format": wanted})
        choice: Any = answer["choices"][0]  # type: ignore[index]
        check_arguments("get_weather", choice["message"]["content"])
        assert choice["finish_reason"] == "stop"
        _, answer = await post(site, "/v1/chat/completions", {**CHAT, "response_format": {"type": "json_object"}})
        assert isinstance(json.loads(answer["choices"][0]["message"]["content"]), dict)  # type: ignore[index]

    run("vllm", check)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tools": "zzz"}, "valid list"),
        ({"tools": [{"type": "function", "function": {"nme": "x"}}]}, "function.name"),
        ({"tool_choice": "required"}, "Tools cannot be empty"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "banana"}}}}, "Invalid type"),
        ({"messages": []}, "messages"),
    ],
)
def test_malformed_forms_are_refused(change: dict[str, object], words: str) -> None:
    async def check(site: Site) -> None:
        status, error = await post(site, "/v1/chat/completions", {**CHAT, **change})
        assert status == 400 and words in json.dumps(error)

    run("vllm", check)
