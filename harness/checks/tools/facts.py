"""The answers of the check: which calls they hold, and what is wrong with each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.checks.history import Answer
from harness.records import Outcome
from workloads.plan import Json
from workloads.tools import FORCED, NAMED

# How models write a call before a parser has taken it out of the text.
MARKUP = ("<tool_call", "</tool_call", "<|tool_call", "[TOOL_CALLS]", "<function=", "<arg_key>")
CUT = "length"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call; arguments: as text, None if there were none."""

    call_id: str
    name: str
    arguments: str | None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One request and its answer."""

    answer: Answer
    calls: tuple[Call, ...]

    @property
    def request_id(self) -> str:
        return self.answer.record.invoke.request_id

    @property
    def conversation(self) -> str:
        return str(self.answer.record.invoke.session)

    @property
    def arm(self) -> str:
        return str(self.answer.record.invoke.arm)

    @property
    def round_index(self) -> int:
        return int(self.answer.record.invoke.cell.rpartition("-r")[2])

    @property
    def kind(self) -> str:
        return str(self._labels.get("kind"))

    @property
    def streamed(self) -> bool:
        return self._labels.get("form") == "stream"

    @property
    def expected(self) -> str | None:
        """The tool that fits, None if none does or any may be called."""
        value = self._labels.get("expected")
        return value if isinstance(value, str) else None

    @property
    def ok(self) -> bool:
        """Whether an answer came."""
        return self.answer.record.complete.outcome is Outcome.OK

    @property
    def refused(self) -> bool:
        """Whether the server said no to the request itself."""
        status = self.answer.record.complete.http_status
        return not self.ok and status is not None and 400 <= status < 500

    @property
    def cut(self) -> bool:
        """Whether the token limit ended it."""
        return self.answer.record.complete.finish_reason == CUT

    @property
    def text(self) -> str:
        text = self.answer.record.complete.text
        return "" if text is None else text

    @property
    def has_markup(self) -> bool:
        """Whether a mark of a call stands in the text, be it all there is of one."""
        return any(mark in self.text for mark in MARKUP)

    @property
    def has_written_call(self) -> bool:
        """Whether what a parser should have taken out stands in the text: a mark, and the name of an offered tool.

        A mark alone, without a call before or after it, is a slip of the model, which no parser can make a call of.
        """
        starts = [place for place in map(self.text.find, MARKUP) if place >= 0]
        if not starts:
            return False
        schemas = self._labels.get("schemas")
        offered = schemas if isinstance(schemas, Mapping) else {}
        return bool(self.calls) or any(name in self.text[min(starts) :] for name in offered)

    @property
    def hit(self) -> bool | None:
        """Whether it came from the cache; None if the server does not say."""
        usage = self.answer.record.complete.usage
        return None if usage is None or usage.cached_tokens is None else usage.cached_tokens > 0

    @property
    def value_told(self) -> bool | None:
        """Whether the value of a tool's result stands in the answer; None where there is none."""
        value = self._labels.get("value")
        return value in self.text if isinstance(value, str) else None

    @cached_property
    def wrong_calls(self) -> tuple[str, ...]:
        """What is wrong with its calls, in words; empty if nothing is, or the limit cut the answer."""
        return () if self.cut else tuple(wrong for call in self.calls for wrong in self._wrong(call))

    @property
    def as_wanted(self) -> bool:
        """Whether the call that fits came, and no other, or none where none fits; forced ones need any that holds."""
        if self.wrong_calls:
            return False
        if self.expected is not None:
            return any(call.name == self.expected for call in self.calls)
        return bool(self.calls) if self.kind in FORCED else not self.calls

    @property
    def _labels(self) -> Mapping[str, Json]:
        return self.answer.record.invoke.labels

    def _wrong(self, call: Call) -> Iterator[str]:
        schemas = self._labels.get("schemas")
        schema = schemas.get(call.name) if isinstance(schemas, Mapping) else None
        if not isinstance(schema, Mapping):
            yield f"{call.name!r} is no tool that was offered"
            return
        if not call.call_id:
            yield f"the call of {call.name} has no id"
        wrong = misfit(call.arguments, schema)
        if wrong is not None:
            yield f"arguments of {call.name}: {wrong}"


def misfit(arguments: str | None, schema: Mapping[str, Json]) -> str | None:
    """Why arguments do not fit their schema, in a few words; None if they do."""
    from jsonschema import Draft202012Validator

    try:
        value = json.loads(arguments if arguments is not None else "")
    except json.JSONDecodeError:
        return f"no JSON: {str(arguments)[:80]!r}"
    if not isinstance(value, dict):
        return f"no JSON object: {str(arguments)[:80]!r}"
    errors = sorted(Draft202012Validator(schema).iter_errors(value), key=lambda error: list(map(str, error.path)))
    return None if not errors else f"{errors[0].message[:120]} in {str(arguments)[:80]!r}"


def rows_of(answers: Sequence[Answer]) -> list[Row]:
    """Every request of the check, answered or not."""
    return [Row(answer=answer, calls=_calls(answer)) for answer in answers]


def _calls(answer: Answer) -> tuple[Call, ...]:
    calls = answer.record.complete.tool_calls
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        return ()
    return tuple(_call(call) for call in calls if isinstance(call, Mapping))


def _call(call: Mapping[str, Json]) -> Call:
    function = call.get("function")
    holder = function if isinstance(function, Mapping) else {}
    arguments = holder.get("arguments")
    return Call(
        call_id=str(call.get("id") or ""),
        name=str(holder.get("name") or ""),
        arguments=arguments if isinstance(arguments, str) else None,
    )


def forced(row: Row, engine: str | None) -> bool:
    """Whether a call had to come; llama.cpp takes a named choice for "auto"."""
    return row.kind in FORCED and not (row.kind == NAMED and engine == "llama.cpp")
