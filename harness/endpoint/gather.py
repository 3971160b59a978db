"""An answer put together from its JSON objects, streamed or whole, in any engine's shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.endpoint.counting import EventFacts
from harness.endpoint.errors import described, error_code
from harness.endpoint.logprobs import count_positions
from harness.endpoint.usage import read_usage
from harness.records import Usage
from workloads.plan import Json, ToolCall

Object = Mapping[str, Json]

# Engine fields kept in `extra` as they came.
_KEPT = frozenset(
    {
        "timings",
        "metrics",
        "sglext",
        "nvext",
        "system_fingerprint",
        "prompt_logprobs",
        "provider",
        "cost",
        "cost_details",
    }
)
_KEPT_OF_CHOICE = frozenset(
    {
        "stop_reason",
        "matched_stop",
        "native_finish_reason",
        "prompt_logprobs",
        "meta_info",
        "avg_decoded_tokens_per_iter",
    }
)
# Kept, read by name below, or saying nothing about the answer; any other field is reported as unread.
_KNOWN = _KEPT | frozenset(
    {
        "id",
        "object",
        "created",
        "model",
        "choices",
        "usage",
        "error",
        "service_tier",
        "prompt_token_ids",
        "prompt_text",
        "prompt_progress",
        "kv_transfer_params",
        "metadata",
        "message",
        "type",
        "code",
        "param",
        "detail",
    }
)
_KNOWN_OF_CHOICE = _KEPT_OF_CHOICE | frozenset(
    {
        "index",
        "text",
        "delta",
        "message",
        "logprobs",
        "finish_reason",
        "token_ids",
        "prompt_token_ids",
        "response_token_ids",
        "seed",
    }
)
_KNOWN_OF_MESSAGE = frozenset(
    {
        "role",
        "content",
        "reasoning",
        "reasoning_content",
        "tool_calls",
        "function_call",
        "refusal",
        "annotations",
        "audio",
        "reasoning_details",
        "name",
    }
)


@dataclass(slots=True)
class PartialCall:
    """A tool call whose pieces are still coming."""

    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Choice:
    """One choice so far; `content` stays None until the server sends a string."""

    content: list[str] | None = None
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, PartialCall] = field(default_factory=dict)
    token_ids: list[int] | None = None
    logprobs: list[Json] = field(default_factory=list)
    finish_reason: str | None = None

    def text(self) -> str | None:
        """The content; None if the server sent none."""
        return None if self.content is None else "".join(self.content)

    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls in the order of their index."""
        return tuple(
            ToolCall(call_id=call.call_id, name=call.name, arguments="".join(call.arguments))
            for _, call in sorted(self.calls.items())
        )


class Gathered:
    """Everything read so far; feed it each JSON object of the answer with `add`."""

    def __init__(self) -> None:
        self.choices: dict[int, Choice] = {}
        self.facts: list[EventFacts] = []
        self.usage: Usage | None = None
        self.error: str | None = None
        self.error_code: int | None = None
        self.extra: dict[str, Json] = {}
        self.unread_fields: set[str] = set()

    def add(self, content: Object, offset: int) -> None:
        """Take in one object that began at `offset` of the body."""
        if not content.keys() <= _KNOWN:
            self._note_unread("", content, _KNOWN)
        completion_tokens = self._take_usage(content.get("usage"))
        choices = content.get("choices")
        if isinstance(choices, list) and choices:
            for choice in choices:
                if isinstance(choice, dict):
                    self._take_choice(choice, offset, completion_tokens)
        if choices is None or content.get("error") is not None:
            self._take_error(content)
        for name in _KEPT & content.keys():
            if content[name] is not None:
                self.extra[name] = content[name]

    def _take_error(self, content: Object) -> None:
        message = described(content)
        if message is not None and self.error is None:
            self.error = message
            self.error_code = error_code(content)

    def _take_usage(self, usage: Json) -> int | None:
        if not isinstance(usage, dict):
            return None
        self.usage = read_usage(usage)
        if "cost" in usage:
            self.extra["cost"] = usage["cost"]
        return self.usage.completion_tokens

    def _take_choice(self, content: Object, offset: int, completion_tokens: int | None) -> None:
        index = content.get("index")
        choice = self.choices.setdefault(index if isinstance(index, int) else 0, Choice())
        if not content.keys() <= _KNOWN_OF_CHOICE:
            self._note_unread("choices.", content, _KNOWN_OF_CHOICE)
        message = content.get("delta", content.get("message"))
        body = message if isinstance(message, dict) else content
        if isinstance(message, dict) and not message.keys() <= _KNOWN_OF_MESSAGE:
            self._note_unread("choices.message.", message, _KNOWN_OF_MESSAGE)
        text = body.get("content") if body is message else content.get("text")
        speaks = _take_text(choice, text)
        speaks = _take_reasoning(choice, body) or speaks
        speaks = _take_calls(choice, body.get("tool_calls")) or speaks
        finish_reason = content.get("finish_reason")
        if isinstance(finish_reason, str):
            choice.finish_reason = finish_reason
        self.facts.append(
            EventFacts(
                offset=offset,
                speaks=speaks,
                silent=not speaks and text == "" and finish_reason is None and "role" not in body,
                ids=_take_ids(choice, content),
                positions=_take_logprobs(choice, content.get("logprobs")),
                completion_tokens=completion_tokens,
            )
        )
        for name in _KEPT_OF_CHOICE & content.keys():
            if content[name] is not None:
                self.extra[name] = content[name]

    def _note_unread(self, prefix: str, content: Object, known: frozenset[str]) -> None:
        self.unread_fields.update(prefix + name for name in content.keys() - known if content[name] is not None)


def _take_text(choice: Choice, text: Json) -> bool:
    if not isinstance(text, str):
        return False
    if choice.content is None:
        choice.content = []
    choice.content.append(text)
    return text != ""


def _take_reasoning(choice: Choice, body: Object) -> bool:
    """vLLM says `reasoning`, SGLang and llama.cpp `reasoning_content`, some servers both with the same text."""
    for name in ("reasoning_content", "reasoning"):
        text = body.get(name)
        if isinstance(text, str) and text:
            choice.reasoning.append(text)
            return True
    return False


def _take_calls(choice: Choice, calls: Json) -> bool:
    if not isinstance(calls, list):
        return False
    for position, content in enumerate(calls):
        if not isinstance(content, dict):
            continue
        index = content.get("index")
        call = choice.calls.setdefault(index if isinstance(index, int) else position, PartialCall())
        if isinstance(call_id := content.get("id"), str):
            call.call_id = call_id
        function = content.get("function")
        if isinstance(function, dict):
            if isinstance(name := function.get("name"), str):
                call.name += name
            if isinstance(arguments := function.get("arguments"), str):
                call.arguments.append(arguments)
    return len(calls) > 0


def _take_ids(choice: Choice, content: Object) -> int | None:
    ids = content.get("token_ids")
    if ids is None:
        ids = content.get("response_token_ids")
    if not isinstance(ids, list):
        return None
    if choice.token_ids is None:
        choice.token_ids = []
    choice.token_ids.extend(one for one in ids if isinstance(one, int))
    return len(ids)


def _take_logprobs(choice: Choice, logprobs: Json) -> int | None:
    count = count_positions(logprobs)
    if count:
        choice.logprobs.append(logprobs)
    return count
