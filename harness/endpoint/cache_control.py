"""Emptying a server's cache by its own means, engine by engine; the next cached count is the proof, not the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import orjson

from harness.clock import NS_PER_S, Clock
from harness.endpoint.errors import EndpointError
from harness.records import ErrorKind, RequestError

PATIENCE_S = 20.0
PAUSE_NS = NS_PER_S // 4


class ControlPort(Protocol):
    """The part of a client that cache control uses; every method raises EndpointError on any trouble."""

    async def get_text(self, path: str) -> str:
        """The body of a GET."""
        ...

    async def post_text(self, path: str) -> str:
        """The body of the answer to an empty POST."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushed:
    """What came of a flush: error None means that the server says its cache is empty.

    path: the route that answered, None if none did. said: the start of its answer. busy: it may do so later.
    """

    path: str | None
    said: str = ""
    error: RequestError | None = None
    busy: bool = False


async def flush(client: ControlPort, engine: str | None, clock: Clock) -> Flushed:
    """Empty the cache by the engine's own route; a server that is busy is asked again for PATIENCE_S seconds.

    An engine that is not known is tried with every route there is. Never raises for trouble of the server.
    """
    own = RECIPES.get(engine) if engine is not None else None
    recipes = tuple(RECIPES.values()) if own is None else (own,)
    found = Flushed(path=None, error=_refusal("the server has no known route that empties its cache", 404))
    for recipe in recipes:
        found = await _patiently(recipe, client, clock)
        if not _absent(found):
            return found
    return found


async def _patiently(recipe: Recipe, client: ControlPort, clock: Clock) -> Flushed:
    give_up_ns = clock.now_ns() + round(PATIENCE_S * NS_PER_S)
    while True:
        found = await recipe(client)
        if not found.busy or clock.now_ns() >= give_up_ns:
            return found
        await clock.sleep_until(clock.now_ns() + PAUSE_NS)


def _absent(found: Flushed) -> bool:
    return found.error is not None and found.error.http_status in (404, 405)


async def _vllm(client: ControlPort) -> Flushed:
    """`{"success": false}` comes with status 200 while any block is held; older servers answer with nothing at all."""
    return await _posted(client, "/reset_prefix_cache", _says_success)


def _says_success(said: str) -> bool:
    content = _object(said)
    return content.get("success") is True if "success" in content else not said.strip()


async def _sglang(client: ControlPort) -> Flushed:
    """Waits on the server's side; 400 means that it did not become idle."""
    found = await _posted(client, f"/flush_cache?timeout={PATIENCE_S:.0f}", lambda said: True)
    busy = found.error is not None and found.error.http_status == 400
    return Flushed(path=found.path, said=found.said, error=found.error, busy=busy)


async def _llama_cpp(client: ControlPort) -> Flushed:
    """Every slot is erased; a prompt cache in the server's memory (`--cache-ram`) is not."""
    try:
        slots = _object(await client.get_text("/props")).get("total_slots")
    except EndpointError as trouble:
        return Flushed(path=None, error=trouble.error)
    if not isinstance(slots, int):
        return Flushed(path=None, error=_refusal("/props does not say how many slots there are", 404))
    found = Flushed(path=None, error=_refusal("the server has no slot", 404))
    for slot in range(slots):
        found = await _posted(client, f"/slots/{slot}?action=erase", lambda said: "n_erased" in _object(said))
        if found.error is not None:
            return found
    return found


async def _dynamo(client: ControlPort) -> Flushed:
    """Status 200 whatever happened: the workers that failed are listed."""
    return await _posted(client, "/clear_kv_blocks", _says_all_workers)


def _says_all_workers(said: str) -> bool:
    content = _object(said)
    return bool(content.get("cleared_workers")) and not content.get("failed_workers")


async def _posted(client: ControlPort, path: str, says_done: Callable[[str], bool]) -> Flushed:
    try:
        said = await client.post_text(path)
    except EndpointError as trouble:
        return Flushed(path=path, error=trouble.error, busy=trouble.error.http_status == 503)
    if says_done(said):
        return Flushed(path=path, said=said[:300])
    error = _refusal(f"{path} answered {said[:200]!r}", 200)
    return Flushed(path=path, said=said[:300], error=error, busy=True)


def _refusal(message: str, status: int) -> RequestError:
    return RequestError(kind=ErrorKind.HTTP_STATUS, message=message, http_status=status)


def _object(text: str) -> Mapping[str, object]:
    try:
        content = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return content if isinstance(content, dict) else {}


Recipe = Callable[[ControlPort], Awaitable[Flushed]]
RECIPES: Mapping[str, Recipe] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "llama.cpp": _llama_cpp,
    "dynamo": _dynamo,
}
