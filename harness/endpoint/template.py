"""A short way through streams whose events differ in nothing but their piece of text."""

from __future__ import annotations

from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTemplate:
    """An event that was read in full, cut open at its one piece of text, and where that text went.

    An event with the same bytes around another JSON string means the same but for that string, so parsing the string
    is enough. `into` is content or reasoning of a choice.
    """

    before: bytes
    after: bytes
    into: list[str]

    def take(self, data: bytes) -> bool:
        """Whether `data` fits and carries text, which is then added; False leaves everything as it was."""
        before, after = self.before, self.after
        if not (data.startswith(before) and data.endswith(after)) or len(data) <= len(before) + len(after):
            return False
        try:
            text = orjson.loads(data[len(before) - 1 : 1 - len(after)])
        except orjson.JSONDecodeError:
            return False
        self.into.append(text)
        return True


def template_of(data: bytes, text: str, into: list[str]) -> TextTemplate | None:
    """A template from an event whose only text is `text`; None if the string is not found exactly once."""
    string = orjson.dumps(text)
    if data.count(string) != 1:
        return None
    start = data.index(string)
    # Both halves keep their quote.
    return TextTemplate(before=data[: start + 1], after=data[start + len(string) - 1 :], into=into)
