"""What servers say when something is wrong, and what it means for the request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import orjson

from harness.endpoint.secret import Secret, redact
from harness.records import ErrorKind, Outcome, RequestError

_SURELY_NOT_EXECUTED = frozenset({ErrorKind.CONNECT, ErrorKind.CONNECT_TIMEOUT, ErrorKind.GATEWAY_CACHE})
_QUEUE_FULL = re.compile(r"queue.*full|full.*queue|\bbusy\b|overloaded", re.IGNORECASE)
_TURNED_AWAY = frozenset({429, 503})
_MAY_HAVE_EXECUTED = frozenset({408})
_LONGEST_MESSAGE = 300


class EndpointError(Exception):
    """A side request (discovery, counters, tokenizing) failed; `error` says how."""

    def __init__(self, error: RequestError) -> None:
        status = f"HTTP {error.http_status}: " if error.http_status is not None else ""
        super().__init__(f"{status}{error.message}")
        self.error = error


def outcome_of(error: RequestError | None, *, spoke: bool = True) -> Outcome:
    """OK without an error; REFUSED if the model surely did not run; else UNKNOWN.

    Surely not run: no connection, a gateway's own cache, a redirect, 4xx but 408, 503, and a stream whose only event
    (`spoke` is False) says with 429 or 503 that the queue is full, as SGLang does. Any other trouble came after the
    request was written, and may have come after the work was done.
    """
    if error is None:
        return Outcome.OK
    if error.kind in _SURELY_NOT_EXECUTED:
        return Outcome.REFUSED
    status = error.http_status
    if error.kind is ErrorKind.STREAM_ERROR and not spoke and status in _TURNED_AWAY:
        return Outcome.REFUSED if _QUEUE_FULL.search(error.message) else Outcome.UNKNOWN
    if error.kind is ErrorKind.HTTP_STATUS and status is not None:
        refused = 300 <= status < 500 and status not in _MAY_HAVE_EXECUTED
        return Outcome.REFUSED if refused or status == 503 else Outcome.UNKNOWN
    return Outcome.UNKNOWN


def error_message(body: bytes) -> str:
    """The words inside an error body, whatever its shape; the start of the body if it has no known shape."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        content = None
    found = described(content) if isinstance(content, dict) else None
    return found if found is not None else body[:1000].decode("utf-8", errors="replace")


def described(content: Mapping[str, object]) -> str | None:
    """The message of an error object; None if `content` is not one.

    Shapes: {"error": {"message"}} (vLLM, llama.cpp, SGLang in streams), {"error": "text"}, {"object": "error",
    "message"} (SGLang), {"detail": ...} (FastAPI).
    """
    error = content.get("error")
    if isinstance(error, Mapping):
        message = error.get("message")
        return message if isinstance(message, str) else orjson.dumps(error).decode()
    if isinstance(error, str):
        return error
    if content.get("object") == "error" or content.get("type") == "error":
        return str(content.get("message"))
    detail = content.get("detail")
    if detail is not None:
        return detail if isinstance(detail, str) else orjson.dumps(detail).decode()
    return None


def error_code(content: Mapping[str, object]) -> int | None:
    """The numeric code inside an error object; None if it has none."""
    error = content.get("error")
    code = error.get("code") if isinstance(error, Mapping) else content.get("code")
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def status_error(
    status: int, headers: Mapping[str, str], body: bytes, secrets: Iterable[Secret], now: datetime
) -> RequestError:
    """The error of an answer whose status is not 2xx; `headers` has lower-case names."""
    if 300 <= status < 400:
        message = f"redirect to {headers.get('location', 'nowhere')} was not followed"
    else:
        message = error_message(body)
    return RequestError(
        kind=ErrorKind.HTTP_STATUS,
        message=short_message(message, secrets),
        http_status=status,
        retry_after_s=retry_after_s(headers, now),
    )


def short_message(text: str, secrets: Iterable[Secret]) -> str:
    """One line of at most 300 characters without any secret."""
    line = " ".join(redact(text, secrets).split())
    return line if len(line) <= _LONGEST_MESSAGE else line[: _LONGEST_MESSAGE - 3] + "..."


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds a `Retry-After` header asks for, given as a number or as a date; None without a readable one."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return max(0.0, (when - now).total_seconds())
