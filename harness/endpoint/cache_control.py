"""Emptying a server's cache by its own means, engine by engine; the next cached count is the proof, not the answer."""

from __future__ import annotations

from harness.clock import NS_PER_S, Clock
from harness.endpoint.dialects import DIALECTS, dialect_of
from harness.endpoint.dialects.base import Flushed, Recipe
from harness.endpoint.dialects.flushing import PATIENCE_S, absent, refusal
from harness.endpoint.side import ControlPort

PAUSE_NS = NS_PER_S // 4


async def flush(client: ControlPort, engine: str | None, clock: Clock) -> Flushed:
    """Empty the cache by the engine's own route; a server that is busy is asked again for PATIENCE_S seconds.

    An engine that is not known is tried with every route there is. Never raises for trouble of the server.
    """
    own = None if engine is None else dialect_of(engine).flush
    recipes = tuple(each.flush for each in DIALECTS.values() if each.flush is not None) if own is None else (own,)
    found = Flushed(path=None, error=refusal("the server has no known route that empties its cache", 404))
    for recipe in recipes:
        found = await patiently(recipe, client, clock)
        if not absent(found):
            return found
    return found


async def clear_l3(client: ControlPort, engine: str | None, clock: Clock) -> Flushed:
    """Empty the tier behind the cache (L3), which must come before the flush; as patient as `flush`."""
    recipe = dialect_of(engine).clear_l3
    if recipe is None:
        return Flushed(path=None, error=refusal("no route is known that empties the tier behind the cache", 404))
    return await patiently(recipe, client, clock)


async def patiently(recipe: Recipe, client: ControlPort, clock: Clock) -> Flushed:
    """Carry a recipe out, and again while the server is busy, for PATIENCE_S seconds."""
    give_up_ns = clock.now_ns() + round(PATIENCE_S * NS_PER_S)
    while True:
        found = await recipe(client)
        if not found.busy or clock.now_ns() >= give_up_ns:
            return found
        await clock.sleep_until(clock.now_ns() + PAUSE_NS)
