"""Rules between the two forms of one answer: what differs between them and not within them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.checks.degenerate import REPLACEMENT
from harness.checks.history import Answer
from harness.checks.stream.facts import Group, Violation, said, violation
from workloads.plan import Json

FORMS = "forms"
CALLS = "tool calls"
# Compared only where both forms had at least so many answers.
FEWEST_OF_FORM = 2
LONGEST_CHARACTER_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDifferences:
    """agreeing: prompts whose answers repeat within each form. differing: those whose forms differ all the same."""

    agreeing: int
    differing: tuple[Violation, ...]


def broken_between(groups: Sequence[Group]) -> Iterator[Violation]:
    """Counts, reasons and fields that no answer of one form has in common with any of the other."""
    for group in groups:
        yield from _disjoint(group, "prompt tokens", _prompt_tokens)
        yield from _disjoint(group, "cached tokens", _cached_tokens)
        if _repeats(group):
            yield from _disjoint(group, "completion tokens", _completion_tokens)
            yield from _disjoint(group, "finish reason", lambda answer: answer.record.complete.finish_reason)
            yield from _disjoint(group, "reasoning", lambda answer: answer.record.complete.reasoning is not None)
        if group.kind == "tool":
            yield from _calls(group)


def text_differences(groups: Sequence[Group]) -> TextDifferences:
    """Prompts that repeat within each form: a difference between the forms is then the form's."""
    agreeing = [group for group in groups if _repeats(group)]
    differing = [
        violation(
            FORMS,
            [group.streamed[0], group.whole[0]],
            "the streamed answer is another one than the whole answer, and both repeat themselves",
            streamed=said(group.streamed[0]),
            whole=said(group.whole[0]),
        )
        for group in agreeing
        if not _same_text(said(group.streamed[0]), said(group.whole[0]))
    ]
    return TextDifferences(agreeing=len(agreeing), differing=tuple(differing))


def _same_text(streamed: str, whole: str) -> bool:
    """Whether they are alike, but for an end that is no text: llama.cpp holds back what follows a broken character."""
    if streamed == whole:
        return True
    rest = whole.removeprefix(streamed)
    held_back = rest.startswith(REPLACEMENT) and len(rest) <= LONGEST_CHARACTER_BYTES
    return whole.startswith(streamed) and held_back


def _enough(group: Group) -> bool:
    return min(len(group.streamed), len(group.whole)) >= FEWEST_OF_FORM


def _repeats(group: Group) -> bool:
    """Whether both forms give the same text every time they are asked."""
    return _enough(group) and all(len({said(answer) for answer in form}) == 1 for form in (group.streamed, group.whole))


def _disjoint(group: Group, what: str, read: Callable[[Answer], Json]) -> Iterator[Violation]:
    """A value that the forms do not share; one that overlaps at all is let go, as a first answer may be a miss."""
    if not _enough(group):
        return
    streamed, whole = [read(answer) for answer in group.streamed], [read(answer) for answer in group.whole]
    if any(value in whole for value in streamed):
        return
    text = f"{what}: {_listed(streamed)} in streams, {_listed(whole)} in whole answers"
    yield violation(FORMS, [*group.streamed, *group.whole], text, what=what, streamed=streamed, whole=whole)


def _listed(values: Sequence[Json]) -> str:
    return ", ".join(dict.fromkeys("not reported" if value is None else str(value) for value in values))


def _prompt_tokens(answer: Answer) -> int | None:
    usage = answer.record.complete.usage
    return None if usage is None else usage.prompt_tokens


def _completion_tokens(answer: Answer) -> int | None:
    usage = answer.record.complete.usage
    return None if usage is None else usage.completion_tokens


def _cached_tokens(answer: Answer) -> int | None:
    usage = answer.record.complete.usage
    return None if usage is None else usage.cached_tokens


def _calls(group: Group) -> Iterator[Violation]:
    """A call that had to come: there in both forms, its arguments whole JSON unless the limit cut it."""
    for answer in (*group.streamed, *group.whole):
        if answer.record.complete.finish_reason == "length":
            continue
        for arguments in map(_arguments, _calls_in(answer)):
            if not _is_json_object(arguments):
                yield violation(CALLS, [answer], f"arguments are no JSON object: {str(arguments)[:80]}")
    in_streams, in_whole = (any(map(_calls_in, form)) for form in (group.streamed, group.whole))
    if group.both and in_streams != in_whole:
        where = "streams" if in_streams else "whole answers"
        yield violation(CALLS, [*group.streamed, *group.whole], f"tool calls come only in {where}")


def _calls_in(answer: Answer) -> Sequence[Json]:
    calls = answer.record.complete.tool_calls
    return calls if isinstance(calls, Sequence) and not isinstance(calls, str) else ()


def _arguments(call: Json) -> Json:
    """Of a call as it is kept in a record: flat, or under `function` as on the wire."""
    function = call.get("function") if isinstance(call, Mapping) else None
    holder = function if isinstance(function, Mapping) else call
    return holder.get("arguments") if isinstance(holder, Mapping) else None


def _is_json_object(text: object) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except json.JSONDecodeError:
        return False
