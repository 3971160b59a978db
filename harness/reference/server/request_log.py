"""A line on disk for every request received, before anything else happens to it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
import orjson

from harness.reference.server.ask import Ask


class RequestLog:
    """Appends one JSON line per request and flushes it at once, so that a kill loses nothing that was seen.

    ``{"id", "received_ns", "prompt_tokens", "prompt_sha256"}``: monotonic nanoseconds, the length of all prompts, and
    the digest of their ids as little-endian int64, one prompt after the other.
    """

    def __init__(self, path: str) -> None:
        self._file: BinaryIO = Path(path).open("ab")  # noqa: SIM115 (open as long as the server)

    def write(self, request_id: str, received_ns: int, ask: Ask) -> None:
        """Logs one request."""
        digest = hashlib.sha256()
        for prompt in ask.prompts:
            digest.update(np.asarray(prompt, "<i8").tobytes())
        line = {
            "id": request_id,
            "received_ns": received_ns,
            "prompt_tokens": ask.prompt_tokens,
            "prompt_sha256": digest.hexdigest(),
        }
        self._file.write(orjson.dumps(line) + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
