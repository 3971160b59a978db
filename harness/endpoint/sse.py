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
    start = len(_BOM) if body.startswith(_BOM) else 0
    for match in _BLOCK.finditer(body, start):
        block = match.group()
        first = _LINE_END.search(block)
        if first is None or first.end() == len(block):
            line = block if first is None else block[: first.start()]
            if line.startswith(b"data:"):
                yield SseEvent(match.start(), _value(line, 5))
        else:
            event = _event_of_lines(match.start(), block)
            if event is not None:
                yield event


def looks_like_events(body: bytes) -> bool:
    """Whether a body without a content type is an event stream."""
    return body.removeprefix(_BOM).lstrip(b"\r\n").startswith((b"data:", b"event:", b"id:", b"retry:", b":"))


def _event_of_lines(offset: int, block: bytes) -> SseEvent | None:
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
