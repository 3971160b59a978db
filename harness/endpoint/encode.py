"""Requests as bytes, encoded once and away from the moment of sending."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from harness.endpoint.target import Target
from workloads.plan import Ask, ChatPrompt, Json, Message, Prompt, TextPrompt, TokenPrompt

PROMPT_FIELDS = frozenset({"messages", "tools", "prompt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRequest:
    """A request ready to be written.

    path: from the server's root. prompt: what is stored under prompt_hash (SHA-256, hex): the JSON object of the
    prompt's body fields. parameters: the other body fields. abort_after_events: see `workloads.plan.Ask`.
    """

    request_id: str
    path: str
    route: str
    body: bytes
    headers: Mapping[str, str]
    stream: bool
    prompt: bytes
    prompt_hash: str
    parameters: Mapping[str, Json]
    abort_after_events: int | None = None


def encode_request(ask: Ask, target: Target, sampling: Mapping[str, Json], request_id: str) -> EncodedRequest:
    """The request for `ask`; its own parameters win over the run's `sampling`.

    Raises ValueError if the prompt does not fit the route or a parameter would replace it.
    """
    parameters = _parameters(ask, target, sampling)
    prompt = orjson.dumps(_prompt_fields(ask.prompt, target))
    return EncodedRequest(
        request_id=request_id,
        path=target.route,
        route=target.endpoint_type,
        body=_joined(prompt, orjson.dumps(parameters)),
        headers={"Content-Type": "application/json", "X-Request-Id": request_id},
        stream=ask.stream,
        prompt=prompt,
        prompt_hash=hashlib.sha256(prompt).hexdigest(),
        parameters=parameters,
        abort_after_events=ask.abort_after_events,
    )


def _joined(first: bytes, second: bytes) -> bytes:
    """Two non-empty JSON objects without a common key as one, so that a long prompt is serialised only once."""
    return first[:-1] + b"," + second[1:]


def _parameters(ask: Ask, target: Target, sampling: Mapping[str, Json]) -> dict[str, Json]:
    parameters: dict[str, Json] = {"model": target.model}
    given = {**sampling, **ask.parameters}
    if clash := PROMPT_FIELDS & given.keys():
        raise ValueError(f"{ask.key}: the body fields {', '.join(sorted(clash))} belong to the prompt")
    if "max_completion_tokens" not in given:
        parameters["max_tokens"] = ask.max_tokens
    parameters["stream"] = ask.stream
    if ask.stream:
        parameters["stream_options"] = {"include_usage": True}
    return parameters | given


def _prompt_fields(prompt: Prompt, target: Target) -> dict[str, object]:
    if target.endpoint_type == "completions":
        return {"prompt": _completion_prompt(prompt)}
    match prompt:
        case ChatPrompt(messages=messages, tools=tools):
            fields: dict[str, object] = {"messages": [_message(message) for message in messages]}
            return fields | ({"tools": tools} if tools else {})
        case TextPrompt(text=text):
            return {"messages": [{"role": "user", "content": text}]}
        case TokenPrompt():
            raise ValueError("token ids can be asked only on the completions route (--endpoint-type completions)")


def _completion_prompt(prompt: Prompt) -> str | tuple[int, ...]:
    match prompt:
        case TextPrompt(text=text):
            return text
        case TokenPrompt(token_ids=token_ids):
            return token_ids
        case ChatPrompt():
            return chat_as_text(prompt)


def chat_as_text(prompt: ChatPrompt) -> str:
    """A chat as plain text for a route without a chat template; each earlier turn's text is a prefix of the next."""
    parts = [orjson.dumps(prompt.tools).decode() + "\n"] if prompt.tools else []
    for message in prompt.messages:
        calls = "".join(f"\n{call.name}({call.arguments})" for call in message.tool_calls)
        parts.append(f"{message.role}: {message.content if message.content is not None else ''}{calls}\n")
    return "".join(parts)


def _message(message: Message) -> dict[str, object]:
    fields: dict[str, object] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        fields["tool_calls"] = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        fields["tool_call_id"] = message.tool_call_id
    return fields
