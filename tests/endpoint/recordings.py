"""The recorded answers of real servers, as raw answers."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.endpoint.errors import status_error
from harness.endpoint.raw import RawAnswer

WIRE = Path(__file__).parent.parent / "fixtures" / "wire"
EXPECTED: dict[str, dict[str, Any]] = json.loads((WIRE / "expected.json").read_text())
ARRIVED_NS = 5_000_000


def recorded(name: str) -> RawAnswer:
    """The answer recorded in `<engine>/<name>.txt`, all of which arrived at ARRIVED_NS."""
    content = (WIRE / f"{name}.txt").read_bytes()
    status, headers = 200, {}
    if content.startswith(b"HTTP/"):
        head, content = re.split(rb"\r?\n\r?\n", content, maxsplit=1)
        lines = head.decode().splitlines()
        status = int(lines[0].split()[1])
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    return raw_answer(content, status=status, headers=headers)


def raw_answer(body: bytes, *, status: int = 200, headers: dict[str, str] | None = None, **fields: Any) -> RawAnswer:
    """An answer that came in one piece."""
    headers = {} if headers is None else headers
    error = None if status == 200 else status_error(status, headers, body, (), datetime(2026, 11, 29, tzinfo=UTC))
    return RawAnswer(
        **{
            "http_status": status,
            "headers": headers,
            "sent_ns": 1_000_000,
            "body": body,
            "starts": (0,) if body else (),
            "arrivals_ns": (ARRIVED_NS,) if body else (),
            "end_ns": 9_000_000,
            "error": error,
            **fields,
        }
    )


def page(name: str) -> str:
    """The body of a recorded side request."""
    return recorded(name).body.decode()
