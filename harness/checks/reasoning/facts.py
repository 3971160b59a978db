"""The answers of the check: what was thought, what was said, and under which names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.history import Answer
from harness.records import Outcome, Usage
from workloads.reasoning import STREAM

# How models mark thinking before a parser has taken it out of the text.
TAGS = re.compile(r"</?think(ing)?>|\[/?THINK\]|<\|channel\|>|◁/?think▷")
NAMES = ("reasoning", "reasoning_content")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One answered question; names: of the fields that held reasoning. said, thought: "" for none."""

    request_id: str
    question: str
    round_index: int
    mode: str
    streamed: bool
    said: str
    thought: str
    names: frozenset[str]
    cut: bool
    usage: Usage | None

    @property
    def whole_thing(self) -> bool:
        """Whether both thinking and answer are there, so that a limit did not end it within the thinking."""
        return not self.cut or (bool(self.said.strip()) and bool(self.thought.strip()))

    @property
    def thinks(self) -> bool:
        return bool(self.thought.strip())

    @property
    def leaks(self) -> bool:
        """Whether marks of thinking stand in the answer."""
        return TAGS.search(self.said) is not None


def rows_of(answers: Sequence[Answer]) -> list[Row]:
    """Every answer that came in full."""
    return [_row(answer) for answer in answers if answer.record.complete.outcome is Outcome.OK]


def _row(answer: Answer) -> Row:
    invoke, done = answer.record.invoke, answer.record.complete
    return Row(
        request_id=invoke.request_id,
        question=str(invoke.session),
        round_index=int(invoke.cell.rpartition("-r")[2]),
        mode=str(invoke.labels.get("mode")),
        streamed=invoke.labels.get("form") == STREAM,
        said="" if done.text is None else done.text,
        thought="" if done.reasoning is None else done.reasoning,
        names=answer.message_fields & frozenset(NAMES),
        cut=done.finish_reason == "length",
        usage=done.usage,
    )
