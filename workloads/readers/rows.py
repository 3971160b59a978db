"""Rows of text files with their line numbers, and typed access to their fields."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence

from workloads.plan import ChatPrompt, Json, Message, ToolCall

Row = Mapping[str, Json]
_SPACE = " \t\r\n,"


def json_rows(text: str) -> Iterator[tuple[int, Json | ValueError]]:
    """(line, value) of JSON lines, of one JSON value, or of the elements of one JSON array.

    A line that is not JSON gives the error in its place; reading goes on with the next line.
    """
    decoder = json.JSONDecoder()
    at = _skip(text, 0, _SPACE)
    line, counted = 1, 0
    in_array = text[at : at + 1] == "["
    at = _skip(text, at + in_array, _SPACE)
    while at < len(text) and not (in_array and text[at] == "]"):
        line, counted = line + text.count("\n", counted, at), at
        try:
            value, at = decoder.raw_decode(text, at)
            yield line, value
        except json.JSONDecodeError as error:
            yield line, ValueError(f"not JSON: {error.msg}")
            at = text.find("\n", at)
            if at < 0:
                return
        at = _skip(text, at, _SPACE)


def csv_rows(text: str) -> Iterator[tuple[int, Row]]:
    """(line, row) of a CSV file with a header; values are text."""
    reader = csv.DictReader(text.splitlines())
    for row in reader:
        yield reader.line_num, {str(name).strip(): value for name, value in row.items()}


def as_object(value: Json | ValueError) -> Row:
    """The value if it is a JSON object; ValueError otherwise."""
    if isinstance(value, ValueError):
        raise value
    if not isinstance(value, Mapping):
        raise ValueError(f"expected an object, got {value!r:.60}")
    return value


def number(row: Row, *names: str) -> float:
    """The number under the first of `names` that is there; ValueError if none is, or it is no number."""
    name = next((name for name in names if row.get(name) is not None), names[0])
    value = row.get(name)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            raise ValueError(f"{name} is not a number: {value!r:.40}") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} is missing" if value is None else f"{name} is not a number: {value!r:.40}")
    return float(value)


def count(row: Row, *names: str) -> int:
    """A whole number of at least 0; ValueError otherwise."""
    value = number(row, *names)
    if value < 0 or value != int(value):
        raise ValueError(f"{names[0]} is not a count: {value:g}")
    return int(value)


def optional_count(row: Row, *names: str) -> int | None:
    """Like `count`; None if there is none."""
    return count(row, *names) if any(row.get(name) is not None for name in names) else None


def text_of(row: Row, name: str) -> str:
    """A string field; ValueError otherwise."""
    value = row.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is missing" if value is None else f"{name} is not text: {value!r:.40}")
    return value


def objects(row: Row, name: str) -> Sequence[Row]:
    """A list of objects; ValueError otherwise."""
    value = row.get(name)
    if (
        not isinstance(value, Sequence)
        or isinstance(value, str)
        or not all(isinstance(each, Mapping) for each in value)
    ):
        raise ValueError(f"{name} is missing" if value is None else f"{name} is not a list of objects")
    return [each for each in value if isinstance(each, Mapping)]


def block_ids(row: Row) -> tuple[int, ...]:
    """`hash_ids`, a list of whole numbers; ValueError otherwise."""
    value = row.get("hash_ids")
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError("hash_ids is missing" if value is None else "hash_ids is not a list")
    ids = tuple(each for each in value if isinstance(each, int) and not isinstance(each, bool))
    if len(ids) != len(value):
        raise ValueError("hash_ids holds something that is not a whole number")
    return ids


def chat_message(row: Row) -> Message:
    """One message in OpenAI's terms; text parts are joined, other parts are a ValueError."""
    calls = tuple(
        ToolCall(call_id=str(call.get("id", "")), name=text_of(function, "name"), arguments=_arguments(function))
        for call in (objects(row, "tool_calls") if row.get("tool_calls") else ())
        if isinstance(function := call.get("function"), Mapping)
    )
    call_id = row.get("tool_call_id")
    return Message(
        role=text_of(row, "role"),
        content=_content(row.get("content")),
        tool_calls=calls,
        tool_call_id=call_id if isinstance(call_id, str) else None,
    )


def chat_prompt(row: Row, name: str = "messages") -> ChatPrompt:
    """Messages and, if there are any, tools; ValueError otherwise."""
    messages = tuple(chat_message(each) for each in objects(row, name))
    if not messages:
        raise ValueError(f"{name} is empty")
    return ChatPrompt(messages=messages, tools=tuple(objects(row, "tools")) if row.get("tools") else ())


def _arguments(function: Row) -> str:
    value = function.get("arguments", "{}")
    return value if isinstance(value, str) else json.dumps(value)


def _content(value: Json) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        parts = [part.get("text") if isinstance(part, Mapping) else None for part in value]
        if all(isinstance(part, str) for part in parts):
            return "".join(str(part) for part in parts)
    raise ValueError("a message's content is neither text nor parts of text")


def _skip(text: str, at: int, letters: str) -> int:
    while at < len(text) and text[at] in letters:
        at += 1
    return at
