"""The contract of tool calls: what breaks it, by conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.checks.tools.facts import CUT, Row, forced
from harness.checks.verdict import Evidence
from workloads.tools import AUTO, GROUNDED, NAMED, NONE, PARALLEL, UNFIT

CHOICE = (AUTO, PARALLEL, UNFIT, GROUNDED)
CALLED = "tool_calls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken rule in one conversation."""

    rule: str
    conversation: str
    round_index: int
    evidence: Evidence


def broken_rules(rows: Sequence[Row], engine: str | None) -> list[Violation]:
    """Every broken rule, in the order of asking; answers that the token limit cut break none."""
    whole = [row for row in rows if row.ok and not row.cut]
    parsed = any(row.calls for row in rows if row.kind in CHOICE)
    found = [violation for row in whole for violation in _of_one(row, engine, parsed=parsed)]
    return [*found, *_between_forms(whole)]


def _of_one(row: Row, engine: str | None, *, parsed: bool) -> Iterator[Violation]:
    must = forced(row, engine)
    if must and not row.calls:
        yield _violation("forced call", [row], f"no call came, but {row.text.strip()[:60]!r}")
    if row.kind == NAMED and must:
        for call in row.calls:
            if call.name != row.expected:
                yield _violation("named tool", [row], f"{call.name} was called, {row.expected} was named")
    for wrong in row.wrong_calls:
        yield _violation("arguments of a forced call" if must else "arguments of a chosen call", [row], wrong)
    if row.kind == NONE and row.calls:
        yield _violation("forbidden call", [row], f"{row.calls[0].name} was called although calls were forbidden")
    if (must and row.has_markup) or (row.kind in CHOICE and parsed and row.has_written_call):
        yield _violation("markup in the text", [row], f"{row.text.strip()[:80]!r}")
    reason = row.answer.record.complete.finish_reason
    if row.kind in CHOICE and row.calls and reason not in (CALLED, CUT):
        yield _violation("finish reason", [row], f"a call came, and the finish reason is {reason}")
    ids = [call.call_id for call in row.calls]
    if len(set(ids)) < len(ids):
        yield _violation("call ids", [row], f"two calls of one answer have the same id {ids[0]}")


def _between_forms(rows: Sequence[Row]) -> Iterator[Violation]:
    """Calls that come in one form only, in all answers of each."""
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row.conversation, []).append(row)
    for same in by_name.values():
        streamed = [bool(row.calls) for row in same if row.streamed]
        whole = [bool(row.calls) for row in same if not row.streamed]
        if min(len(streamed), len(whole)) < 2 or len(set(streamed)) > 1 or len(set(whole)) > 1:
            continue
        if streamed[0] != whole[0]:
            where = "streams" if streamed[0] else "whole answers"
            yield _violation("forms", same, f"calls come only in {where}")


def _violation(rule: str, rows: Sequence[Row], text: str) -> Violation:
    first = rows[0]
    form = "streamed" if first.streamed else "whole"
    return Violation(
        rule=rule,
        conversation=first.conversation,
        round_index=first.round_index,
        evidence=Evidence(
            request_ids=tuple(row.request_id for row in rows),
            text=f"{first.conversation} ({first.arm}, {form}): {rule}: {text}",
            table={"rule": rule, "conversation": first.conversation, "calls": [call.name for call in first.calls]},
        ),
    )
