"""HTTP/1.1 chunked framing (RFC 9112, section 7.1), taken off whole pieces at a time."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

_LONGEST_LINE_BYTES = 8192


class FramingError(Exception):
    """The bytes are not chunked framing."""


class ChunkedBody:
    """Takes the framing off a body fed in pieces that are split anywhere.

    `finished` becomes true after the last chunk and its trailer; `leftover` holds what was fed beyond.
    """

    __slots__ = ("_buffer", "_in_trailer", "_left", "finished", "leftover")

    def __init__(self) -> None:
        self._buffer = b""
        self._left = 0
        self._in_trailer = False
        self.finished = False
        self.leftover = b""

    def feed(self, piece: bytes) -> bytes:
        """The payload inside `piece`, possibly none; FramingError if the framing is broken."""
        if self.finished:
            self.leftover += piece
            return b""
        data = self._buffer + piece if self._buffer else piece
        payload: list[bytes] = []
        position = 0
        while not self.finished:
            if self._left > 2:
                part = data[position : position + self._left - 2]
                payload.append(part)
                position += len(part)
                self._left -= len(part)
                if self._left > 2:
                    break
            elif self._left == 0 and not self._in_trailer:
                position = _take_whole_chunks(data, position, payload)
            following = self._line(data, position)
            if following is None:
                break
            position = following
        self._buffer = b"" if self.finished else data[position:]
        self.leftover = data[position:] if self.finished else b""
        return payload[0] if len(payload) == 1 else b"".join(payload)

    def feed_each(self, pieces: Iterable[bytes], payloads: list[bytes]) -> None:
        """Add the payload inside each piece to `payloads`, as `feed` gives it; those before a broken one stay."""
        for piece in pieces:
            if self._left == 0 and not self._buffer and not self._in_trailer:
                # Servers that flush each token send pieces of exactly one chunk.
                end = piece.find(b"\r\n", 0, 10)
                size = _plain_size(piece[:end]) if end > 0 else None
                if size is not None and end + 4 + size == len(piece) and piece[-2:] == b"\r\n":
                    payloads.append(piece[end + 2 : -2])
                    continue
            payloads.append(self.feed(piece))

    def _line(self, data: bytes, position: int) -> int | None:
        """Take the line break after a chunk, a size line or a trailer line; None if it is not whole yet."""
        if self._left == 2:
            return self._chunk_end(data, position)
        end = data.find(b"\r\n", position)
        if end < 0:
            if len(data) - position > _LONGEST_LINE_BYTES:
                raise FramingError("a chunk's size line does not end")
            return None
        if self._in_trailer:
            self.finished = end == position
        else:
            self._begin_chunk(data[position:end])
        return end + 2

    def _chunk_end(self, data: bytes, position: int) -> int | None:
        if len(data) - position < 2:
            return None
        if data[position : position + 2] != b"\r\n":
            raise FramingError("a chunk is longer than it said")
        self._left = 0
        return position + 2

    def _begin_chunk(self, line: bytes) -> None:
        digits = line.partition(b";")[0].strip()
        try:
            size = int(digits, 16)
        except ValueError:
            raise FramingError(f"not a chunk size: {line[:40]!r}") from None
        if size < 0 or digits[:1] == b"+":
            raise FramingError(f"not a chunk size: {line[:40]!r}")
        if size == 0:
            self._in_trailer = True
        else:
            self._left = size + 2


def _take_whole_chunks(data: bytes, position: int, payload: list[bytes]) -> int:
    """Add what chunks hold that are whole and plain to `payload`; where the first that is neither begins."""
    while (end := data.find(b"\r\n", position, position + 10)) > position:
        size = _plain_size(data[position:end])
        if size is None or data[end + 2 + size : end + 4 + size] != b"\r\n":
            break
        payload.append(data[end + 2 : end + 2 + size])
        position = end + 4 + size
    return position


@lru_cache(maxsize=1024)
def _plain_size(line: bytes) -> int | None:
    """The size that a line without extensions tells; None for any other line, and for the last chunk."""
    try:
        return (int(line, 16) or None) if line.isalnum() else None
    except ValueError:
        return None
