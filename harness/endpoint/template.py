"""A short way through streams whose events differ in nothing but their piece of text."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import orjson

_FIRST_LOOK_BYTES = 4096
_FIELD = b"data: "


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

    def run(self, body: bytes, start: int) -> tuple[list[int], int]:
        """Take the events from `start` on that fit, one right after the other, in a body whose lines end with LF.

        Returns their offsets and where the next block begins. As strings of JSON hold neither bare quotes nor line
        breaks, all of them are parsed at once, and anything else in between shows as another number of strings.
        """
        offsets: list[int] = []
        head, tail = _FIELD + self.before, self.after + b"\n\n"
        reach = _FIRST_LOOK_BYTES
        while body.startswith(head, start):
            strings = body[start + len(head) : start + reach].split(tail + head)
            last, end, _ = strings[-1].partition(tail)
            strings = [*strings[:-1], last] if end else strings[:-1]
            texts = _texts(strings)
            if not texts:
                return offsets, start
            self.into.extend(texts)
            lengths = map((len(head) + len(tail)).__add__, map(len, strings))
            ends = list(accumulate(lengths, initial=start))
            offsets += ends[:-1]
            start, reach = ends[-1], 2 * reach
        return offsets, start


def _texts(strings: list[bytes]) -> list[str]:
    """What strings of JSON say, given without their quotes; empty if one of them is none, or says nothing."""
    try:
        texts = orjson.loads(b'["' + b'","'.join(strings) + b'"]') if strings else []
    except orjson.JSONDecodeError:
        return []
    return texts if len(texts) == len(strings) and all(texts) else []


def template_of(data: bytes, text: str, into: list[str]) -> TextTemplate | None:
    """A template from an event whose only text is `text`; None if the string is not found exactly once."""
    string = orjson.dumps(text)
    if data.count(string) != 1:
        return None
    start = data.index(string)
    # Both halves keep their quote.
    return TextTemplate(before=data[: start + 1], after=data[start + len(string) - 1 :], into=into)
