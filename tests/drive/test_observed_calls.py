"""A generator sees the tool calls of an answer as the record keeps them."""

from __future__ import annotations

from harness.drive.reader import observed
from harness.records import Complete, Outcome
from workloads.plan import Json, ToolCall


def seen(tool_calls: Json) -> tuple[ToolCall, ...]:
    return observed("k", Complete(request_id="r", outcome=Outcome.OK, tool_calls=tool_calls)).tool_calls


def test_calls_in_openais_shape_are_seen() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
    assert seen([call]) == (ToolCall(call_id="c1", name="read", arguments='{"path": "a"}'),)


def test_no_calls_and_calls_without_a_name_are_none() -> None:
    assert seen(None) == seen([]) == seen([{"id": "c1", "function": {"arguments": "{}"}}]) == ()
