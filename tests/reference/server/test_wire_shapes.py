"""The dialects write what the recorded servers wrote: the same fields in the same places, events in the same order."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.reference.server.serving import Site, events, post, server_options, serving

WIRE = Path(__file__).resolve().parents[2] / "fixtures" / "wire"
RECORDED = {"vllm": "vllm-qwen3", "sglang": "sglang-qwen3", "llamacpp": "llama-bailing3"}
TEXT = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0, "seed": 1}
CHAT = {"messages": [{"role": "user", "content": "Say hello and count to five."}], "temperature": 0, "seed": 1}
LISTED = {"stream": True, "stream_options": {"include_usage": True}}
CONTINUOUS = {"include_usage": True, "continuous_usage_stats": True}
WHOLE: dict[str, dict[str, Any]] = {
    "comp": TEXT,
    "comp_stop": {**TEXT, "stop": ["e"]},
    "comp_logprobs20": {**TEXT, "max_tokens": 4, "logprobs": 20},
    "comp_n2": {**TEXT, "max_tokens": 4, "temperature": 1.0, "n": 2},
    "comp_list": {**TEXT, "prompt": ["a b c", "d e f"], "max_tokens": 4},
    "comp_tokenids": {**TEXT, "max_tokens": 4, "return_token_ids": True},
    "chat": {**CHAT, "max_tokens": 12},
    "chat_lp20": {**CHAT, "max_tokens": 3, "logprobs": True, "top_logprobs": 20},
    "chat_mct": {**CHAT, "max_completion_tokens": 5},
}
STREAMS: dict[str, dict[str, Any]] = {
    "comp_stream": {**TEXT, **LISTED},
    "comp_stream_nousage": {**TEXT, "stream": True},
    "comp_stream_contusage": {**TEXT, **LISTED, "stream_options": CONTINUOUS},
    "chat_stream": {**CHAT, "max_tokens": 12, **LISTED},
    "chat_stream_nousage": {**CHAT, "max_tokens": 12, "stream": True},
}
ERRORS: dict[str, dict[str, Any]] = {
    "err_unknown_model": {**TEXT, "model": "nope"},
    "err_missing_prompt": {},
    "err_max_tokens_0": {**TEXT, "max_tokens": 0},
    "err_temp": {**TEXT, "temperature": -3},
    "err_maxtok_over_ctx": {**TEXT, "max_tokens": 1000000},
}
# Fields that servers differ in from release to release, or that say what the embedded engine has nothing to say about.
UNTOLD = {
    "service_tier", "ec_transfer_params", "routed_experts", "annotations", "audio", "function_call", "prompt_text",
    "completion_tokens_details", "permission", "weight_versions", "parent",
}  # fmt: skip


def recorded(dialect: str, name: str) -> tuple[int, str]:
    """Status and body of a recording."""
    path = WIRE / RECORDED[dialect] / f"{name}.txt"
    if not path.exists():
        pytest.skip(f"{path.name} is not among the fixtures")
    head, _, body = path.read_bytes().decode().replace("\r\n", "\n").partition("\n\n")
    return int(head.split()[1]), body


def shape(value: object) -> object:
    """Names and nesting; lists by their first item, values left out. Logprob tables are keyed by text: not fields."""
    if isinstance(value, dict):
        told = {key: item for key, item in sorted(value.items()) if key not in UNTOLD}
        return {key: None if key == "top_logprobs" else shape(item) for key, item in told.items()}
    return [shape(value[0])] if isinstance(value, list) and value else None


def holes_filled(one: object, other: object) -> object:
    """``one`` with nothing where ``other`` has nothing: a field that one leaves null may be an object in the other."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: holes_filled(value, other[key]) if key in other else value for key, value in one.items()}
    if isinstance(one, list) and isinstance(other, list):
        return [holes_filled(a, b) for a, b in zip(one, other, strict=True)]
    return None if one is None or other is None else one


def run(dialect: str, check: Any) -> None:
    async def whole() -> None:
        async with serving(server_options(dialect=dialect)) as site:
            await check(site)

    asyncio.run(whole())


def path_of(name: str) -> str:
    return "/v1/chat/completions" if name.startswith("chat") else "/v1/completions"


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("dialect", RECORDED)
def test_whole_answers_have_the_recorded_fields(dialect: str, name: str) -> None:
    _, body = recorded(dialect, name)

    async def check(site: Site) -> None:
        status, answer = await post(site, path_of(name), {**WHOLE[name], "ignore_eos": True})
        assert status == 200
        ours, theirs = shape(answer), shape(json.loads(body))
        assert holes_filled(ours, theirs) == holes_filled(theirs, ours)

    run(dialect, check)


def kind(event: object) -> object:
    """What an event of a stream is: the fields of its delta, whether it ends a choice, whether it counts tokens."""
    if not isinstance(event, dict):
        return event
    choices = event["choices"]
    parts = sorted(choices[0].get("delta", {"text": 0})) if choices else None
    return parts, bool(choices and choices[0]["finish_reason"]), bool(event.get("usage")), "timings" in event


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("dialect", RECORDED)
def test_streams_have_the_recorded_events(dialect: str, name: str) -> None:
    """Repeats of one kind count once: how many tokens a text has is the model's affair."""
    _, body = recorded(dialect, name)
    payloads = [line.removeprefix("data: ") for line in body.split("\n\n") if line.startswith("data: ")]
    theirs = [kind(payload if payload == "[DONE]" else json.loads(payload)) for payload in payloads]

    async def check(site: Site) -> None:
        asked = {**STREAMS[name], "ignore_eos": True}
        ours = [kind(event) for event in await events(site, path_of(name), asked)]
        assert list(dict.fromkeys(map(repr, ours))) == list(dict.fromkeys(map(repr, theirs)))

    run(dialect, check)


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("dialect", RECORDED)
def test_errors_have_the_recorded_status_and_fields(dialect: str, name: str) -> None:
    status, body = recorded(dialect, name)

    async def check(site: Site) -> None:
        got, answer = await post(site, path_of(name), ERRORS[name])
        assert got == status
        if status != 200:
            theirs = json.loads(body)
            assert shape(answer) == shape(theirs)
            flat = answer.get("error", answer)
            assert flat["code"] == theirs.get("error", theirs)["code"]

    run(dialect, check)
