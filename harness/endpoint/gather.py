"""An answer put together from its JSON objects, streamed or whole, in any engine's shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from harness.endpoint.counting import EventFacts
from harness.endpoint.errors import described, error_code
from harness.endpoint.logprobs import count_positions
from harness.endpoint.template import TextTemplate, template_of
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
# Prefixes under which unread fields are reported, and what is kept and known at each level.
_TOP, _CHOICE, _MESSAGE = "", "choices.", "choices.message."
_FIELDS = {
    _TOP: (_KEPT, _KNOWN),
    _CHOICE: (_KEPT_OF_CHOICE, _KNOWN_OF_CHOICE),
    _MESSAGE: (frozenset[str](), _KNOWN_OF_MESSAGE),
}
_TEXT_FIELDS = ("content", "text", "reasoning", "reasoning_content")


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
        self.facts = EventFacts()
        self.usage: Usage | None = None
        self.error: str | None = None
        self.error_code: int | None = None
        self.extra: dict[str, Json] = {}
        self.unread_fields: set[str] = set()

    def template(self, content: Object, data: bytes) -> TextTemplate | None:
        """A template from an object just added, if it carried one piece of text and nothing else that varies."""
        choices = content.get("choices")
        choice = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
        if not isinstance(choice, dict) or choice.get("finish_reason") is not None:
            return None
        body = choice.get("delta", choice)
        into = self.choices.get(choice.get("index", 0))
        if not isinstance(body, dict) or body.get("tool_calls") or into is None:
            return None
        if not self.facts.last_is_only_text():
            return None
        texts = [(name, body[name]) for name in _TEXT_FIELDS if body.get(name)]
        if len(texts) != 1:
            return None
        ((name, text),) = texts
        target = into.content if name in ("content", "text") else into.reasoning
        return template_of(data, text, target) if target is not None else None

    def add(self, content: Object, offset: int) -> None:
        """Take in one object that began at `offset` of the body."""
        self._note_fields(_TOP, content)
        usage = content.get("usage")
        completion_tokens = self._take_usage(usage) if isinstance(usage, dict) else None
        choices = content.get("choices")
        if isinstance(choices, list):
            for choice in choices:
                if isinstance(choice, dict):
                    self._take_choice(choice, offset, completion_tokens)
        if choices is None or "error" in content:
            self.take_error(content)

    def take_error(self, content: Object, *, named: bool = False) -> None:
        """Note an object that tells of an error; `named` if its event said so, whatever its shape."""
        message = described({"error": content} if named and described(content) is None else content)
        if message is not None and self.error is None:
            self.error = message
            self.error_code = error_code(content)

    def _take_usage(self, usage: Object) -> int | None:
        self.usage = read_usage(usage)
        for name in ("cost", "cost_details"):
            if name in usage:
                self.extra[name] = usage[name]
        return self.usage.completion_tokens

    def _take_choice(self, content: Object, offset: int, completion_tokens: int | None) -> None:
        self._note_fields(_CHOICE, content)
        index = content.get("index", 0)
        choice = self.choices.get(index) if isinstance(index, int) else None
        if choice is None:
            choice = self.choices.setdefault(index if isinstance(index, int) else 0, Choice())
        message = content.get("delta") or content.get("message")
        body: Object = message if isinstance(message, dict) else content
        text = body.get("content") if body is message else content.get("text")
        speaks = _take_text(choice, text)
        if body is message:
            self._note_fields(_MESSAGE, body)
            speaks = _take_reasoning(choice, body) or speaks
            speaks = _take_calls(choice, body.get("tool_calls")) or speaks
        finish_reason = content.get("finish_reason")
        if isinstance(finish_reason, str):
            choice.finish_reason = finish_reason
        silent = text == "" and not speaks and finish_reason is None and "role" not in body
        ids, logprobs = _take_ids(choice, content), _take_logprobs(choice, content.get("logprobs"))
        self.facts.add(
            offset,
            speaks=speaks,
            silent=silent,
            ids=ids,
            positions=logprobs,
            completion_tokens=completion_tokens,
        )

    def _note_fields(self, level: str, content: Object) -> None:
        """Keep the engine fields of an object and the names of those that nothing here knows, if they hold anything."""
        kept, unread = _fields(level, tuple(content))
        for name in kept:
            if content[name] is not None:
                self.extra[name] = content[name]
        for name in unread:
            if content[name] is not None:
                self.unread_fields.add(level + name)


@lru_cache(maxsize=1024)
def _fields(level: str, names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which of an object's fields are kept and which are unread; servers repeat few combinations."""
    kept, known = _FIELDS[level]
    return tuple(name for name in names if name in kept), tuple(name for name in names if name not in known)


def _take_text(choice: Choice, text: Json) -> bool:
    if not isinstance(text, str):
        return False
    if choice.content is None:
        choice.content = []
    choice.content.append(text)
    return text != ""


def _take_reasoning(choice: Choice, body: Object) -> bool:
    """vLLM says `reasoning`, SGLang and llama.cpp `reasoning_content`, some servers both with the same text."""
    text = body.get("reasoning_content") or body.get("reasoning")
    if not isinstance(text, str) or not text:
        return False
    choice.reasoning.append(text)
    return True


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
    ids = content.get("token_ids", content.get("response_token_ids"))
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
