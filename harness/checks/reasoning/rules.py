"""What breaks the contract of thinking, by question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.checks.reasoning.facts import TAGS, Row
from harness.checks.verdict import Evidence
from workloads.reasoning import OFF, ON

TEXTS = "texts of the two forms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken rule in the answers to one question."""

    rule: str
    question: str
    round_index: int
    evidence: Evidence


def broken_rules(rows: Sequence[Row]) -> list[Violation]:
    """Every broken rule; `rows` have thinking somewhere, else its marks in the text are no leak."""
    off = [row for row in rows if row.mode == OFF]
    switched = any(not row.thinks for row in off)
    found = [violation for row in rows for violation in _of_one(row, switched=switched)]
    by_question: dict[str, list[Row]] = {}
    for row in rows:
        if row.mode == ON:
            by_question.setdefault(row.question, []).append(row)
    return [*found, *(violation for same in by_question.values() for violation in _between_forms(same))]


def _of_one(row: Row, *, switched: bool) -> Iterator[Violation]:
    if row.leaks:
        yield _violation("marks of thinking in the answer", [row], repr(_around(row.said)))
    if TAGS.search(row.thought):
        yield _violation("marks of thinking in the thinking", [row], repr(_around(row.thought)))
    if row.mode == OFF and row.thinks and switched:
        yield _violation("thinks although switched off", [row], repr(row.thought.strip()[:60]))
    counts = _impossible_counts(row)
    if counts is not None:
        yield _violation("counts", [row], counts)


def _impossible_counts(row: Row) -> str | None:
    """More reasoning tokens than tokens, or fewer than none; None if they are possible or not reported."""
    usage = row.usage
    if usage is None or usage.reasoning_tokens is None or usage.completion_tokens is None:
        return None
    possible = 0 <= usage.reasoning_tokens <= usage.completion_tokens
    return None if possible else f"{usage.reasoning_tokens} reasoning tokens of {usage.completion_tokens}"


def _around(text: str) -> str:
    found = TAGS.search(text)
    start = max(0, found.start() - 20) if found is not None else 0
    return text[start : start + 60]


def _between_forms(rows: Sequence[Row]) -> Iterator[Violation]:
    """What streams and whole answers do not share, where the limit ended none of them within its thinking."""
    if not all(row.whole_thing for row in rows):
        return
    streamed, whole = [row for row in rows if row.streamed], [row for row in rows if not row.streamed]
    if min(len(streamed), len(whole)) < 2:
        return
    if not any(row.thinks for row in streamed) and all(row.thinks for row in whole):
        yield _violation("forms", rows, "thinking comes in whole answers only")
    elif not any(row.thinks for row in whole) and all(row.thinks for row in streamed):
        yield _violation("forms", rows, "thinking comes in streams only")
    elif _repeats(streamed) and _repeats(whole) and _parts(streamed[0]) != _parts(whole[0]):
        joined = ["".join(_parts(row)) for row in (streamed[0], whole[0])]
        rule = "forms" if joined[0] == joined[1] else TEXTS
        text = f"{streamed[0].said.strip()[:40]!r} in streams, {whole[0].said.strip()[:40]!r} in whole answers"
        yield _violation(rule, rows, text)


def _repeats(rows: Sequence[Row]) -> bool:
    return len({_parts(row) for row in rows}) == 1


def _parts(row: Row) -> tuple[str, str]:
    return row.thought.strip(), row.said.strip()


def _violation(rule: str, rows: Sequence[Row], text: str) -> Violation:
    first = rows[0]
    form = "streamed" if first.streamed else "whole"
    where = first.question if len(rows) > 1 else f"{first.question} ({first.mode}, {form})"
    return Violation(
        rule=rule,
        question=first.question,
        round_index=first.round_index,
        evidence=Evidence(
            request_ids=tuple(row.request_id for row in rows), text=f"{where}: {rule}: {text}", table={"rule": rule}
        ),
    )


def field_names(rows: Sequence[Row]) -> dict[bool, frozenset[str]]:
    """Names under which thinking came, of whole answers (False) and streams (True)."""
    empty: frozenset[str] = frozenset()
    return {form: empty.union(*(row.names for row in rows if row.streamed is form)) for form in (False, True)}
