"""One POST that empties something, read by its body rather than by its status."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import orjson

from harness.endpoint.dialects.base import Flushed
from harness.endpoint.errors import EndpointError
from harness.endpoint.side import ControlPort
from harness.records import ErrorKind, RequestError

PATIENCE_S = 20.0


async def posted(client: ControlPort, path: str, says_done: Callable[[str], bool]) -> Flushed:
    """POST and read the answer; 503 and a body that does not say so mean that it may work later."""
    try:
        said = await client.post_text(path)
    except EndpointError as trouble:
        return Flushed(path=path, error=trouble.error, busy=trouble.error.http_status == 503)
    if says_done(said):
        return Flushed(path=path, said=said[:300])
    error = refusal(f"{path} answered {said[:200]!r}", 200)
    return Flushed(path=path, said=said[:300], error=error, busy=True)


def absent(found: Flushed) -> bool:
    """Whether the server has no such route."""
    return found.error is not None and found.error.http_status in (404, 405)


def refusal(message: str, status: int) -> RequestError:
    """An error of a route's own words."""
    return RequestError(kind=ErrorKind.HTTP_STATUS, message=message, http_status=status)


def object_in(text: str) -> Mapping[str, object]:
    """The JSON object in a text; empty if it is none."""
    try:
        content = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return content if isinstance(content, dict) else {}
