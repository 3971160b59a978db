"""Server-sent events out of a whole body (WHATWG HTML, section 9.2), pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_BOM = b"\xef\xbb\xbf"
# A block is a run of non-empty lines; lines end with CRLF, LF or CR.
_BLOCK = re.compile(rb"(?:[^\r\n]+(?:\r\n|\n|\r|\Z))+")
_LINE_END = re.compile(rb"\r\n|\n|\r")


class SseEvent(NamedTuple):
    """One event: `offset` of its first byte in the body, its data, and its type ("message" unless named)."""

    offset: int
    data: bytes
    name: bytes = b"message"


def events(body: bytes) -> Iterator[SseEvent]:
    """Events with data, in order; comments and blocks without data are not events.

    A last block that is not closed by an empty line is given too: whether it is whole shows when its data is parsed.
    """
    return iter(Events(body))


class Events:
    """The events of a body; whoever iterates may set `position` forward to a block it has seen to itself.

    plain: lines end with LF alone, as in nearly all bodies, and blocks lie between empty lines; else `position` is not
    looked at.
    """

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.plain = b"\r" not in body and not body.startswith(_BOM)
        self.position = 0

    def __iter__(self) -> Iterator[SseEvent]:
        return self._plain_events() if self.plain else self._any_events()

    def _plain_events(self) -> Iterator[SseEvent]:
        body = self.body
        while (offset := self.position) < len(body):
            end = body.find(b"\n\n", offset)
            block = body[offset : end if end >= 0 else None]
            self.position = offset + len(block) + 2
            if block.startswith(b"data: ") and b"\n" not in block:
                yield SseEvent(offset, block[6:])
            elif (event := _event(offset, block)) is not None:
                yield event

    def _any_events(self) -> Iterator[SseEvent]:
        shift = len(_BOM) if self.body.startswith(_BOM) else 0
        for match in _BLOCK.finditer(self.body.removeprefix(_BOM)):
            if (event := _event(match.start() + shift, match.group())) is not None:
                yield event


def looks_like_events(body: bytes) -> bool:
    """Whether a body is an event stream whatever its content type says or does not say."""
    return body.removeprefix(_BOM).lstrip(b"\r\n").startswith((b"data:", b"event:", b"id:", b"retry:", b":"))


def _event(offset: int, block: bytes) -> SseEvent | None:
    offset += len(block) - len(block.lstrip(b"\n"))
    data: list[bytes] = []
    name = b"message"
    for line in _LINE_END.split(block):
        if line.startswith(b"data:"):
            data.append(_value(line, 5))
        elif line == b"data":
            data.append(b"")
        elif line.startswith(b"event:"):
            name = _value(line, 6)
    return SseEvent(offset, b"\n".join(data), name) if data else None


def _value(line: bytes, at: int) -> bytes:
    return line[at + 1 :] if line[at : at + 1] == b" " else line[at:]
