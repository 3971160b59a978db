"""Telling reasoning, content and tool calls apart in a chat answer as it streams."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum

from harness.reference.constraint.chat import CALL_END, CALL_HEAD, CALL_MIDDLE, CALL_START, CALL_TAIL, THINK_END


class Section(Enum):
    """Which part of an answer is being read."""

    REASONING = "reasoning"
    CONTENT = "content"
    CALL = "call"


@dataclass(slots=True, kw_only=True)
class CallText:
    """What is new of one tool call; ``name`` comes once, with the first piece."""

    index: int
    name: str | None
    arguments: str


@dataclass(slots=True, kw_only=True)
class ChatText:
    """Text by section."""

    reasoning: str = ""
    content: str = ""
    calls: list[CallText] = field(default_factory=list)


class Splitter:
    """Splits text at the marks; what may be the beginning of a mark waits for more."""

    def __init__(self, *, thinking: bool, tools: bool) -> None:
        self.section = Section.REASONING if thinking else Section.CONTENT
        self._tools = tools
        self._waiting = ""
        self._call_index = -1
        self._in_arguments = False

    def push(self, text: str, *, last: bool) -> ChatText:
        """What new text adds to each section; ``last`` says that nothing follows."""
        self._waiting += text
        parts = ChatText()
        while self._advance(parts):
            pass
        if last or self.section is not Section.CALL:
            self._flush(parts, keep="" if last else self._mark())
        return parts

    def _mark(self) -> str:
        """The mark that would end the section being read, empty when none would."""
        if self.section is Section.REASONING:
            return THINK_END
        return CALL_START if self._tools and self.section is Section.CONTENT else ""

    def _advance(self, parts: ChatText) -> bool:
        """Moves past one mark; False when there is none yet."""
        if self.section is Section.CALL:
            return self._advance_call(parts)
        mark = self._mark()
        before, found, after = self._waiting.partition(mark) if mark else (self._waiting, "", "")
        if not found:
            return False
        self._add(parts, before)
        self._waiting = after
        self.section = Section.CONTENT if self.section is Section.REASONING else Section.CALL
        return True

    def _advance_call(self, parts: ChatText) -> bool:
        if not self._in_arguments:
            head, found, rest = self._waiting.partition(CALL_MIDDLE)
            if not found or not head.startswith(CALL_HEAD):
                return False
            self._call_index += 1
            parts.calls.append(CallText(index=self._call_index, name=json.loads(head[len(CALL_HEAD) :]), arguments=""))
            self._waiting, self._in_arguments = rest, True
        arguments, found, rest = self._waiting.partition(CALL_TAIL + CALL_END)
        if not found:
            ready = len(self._waiting) - len(CALL_TAIL + CALL_END) + 1
            self._argue(parts, self._waiting[: max(ready, 0)])
            self._waiting = self._waiting[max(ready, 0) :]
            return False
        self._argue(parts, arguments)
        self._waiting, self._in_arguments, self.section = rest, False, Section.CONTENT
        return True

    def _argue(self, parts: ChatText, text: str) -> None:
        if parts.calls and parts.calls[-1].index == self._call_index:
            parts.calls[-1].arguments += text
        elif text:
            parts.calls.append(CallText(index=self._call_index, name=None, arguments=text))

    def _flush(self, parts: ChatText, keep: str) -> None:
        """Gives out what waits, but for an ending that begins ``keep``."""
        held = next((n for n in range(len(keep) - 1, 0, -1) if self._waiting.endswith(keep[:n])), 0)
        ready = len(self._waiting) - held
        self._add(parts, self._waiting[:ready])
        self._waiting = self._waiting[ready:]

    def _add(self, parts: ChatText, text: str) -> None:
        if self.section is Section.REASONING:
            parts.reasoning += text
        elif self.section is Section.CONTENT:
            parts.content += text
        elif self._in_arguments:
            self._argue(parts, text)
        else:
            parts.content += text
