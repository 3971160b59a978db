"""The faulty gateway: a proxy that passes everything on and changes the usage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer

from harness.reference.faults.gateway import Gateway
from harness.reference.faults.proxy import proxy_app
from harness.reference.faults.spec import parse_fault
from tests.reference.faults.playing import material
from tests.reference.server.serving import Json, Site, events, post, serving

PROMPT = material("a", 61)
BODY: Json = {"prompt": PROMPT, "max_tokens": 3, "temperature": 0, "ignore_eos": True}


@asynccontextmanager
async def behind(mode: str) -> AsyncIterator[tuple[Site, Site]]:
    """A server, and the same behind a gateway; the prompt is in its cache."""
    gateway = cast(Gateway, parse_fault(f"K35:mode={mode}").build())
    async with serving() as direct:
        app = proxy_app(str(direct.client.make_url("")).rstrip("/"), [gateway])
        async with TestClient(TestServer(app)) as client:
            await post(direct, "/v1/completions", BODY)
            yield direct, Site(client, direct.service)


def through(mode: str, look: Callable[[Site, Site], Awaitable[None]]) -> None:
    async def run() -> None:
        async with behind(mode) as (direct, gateway):
            await look(direct, gateway)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("mode", "details", "prompt_tokens"), [("drop", None, 61), ("double", 112, 61), ("cost", 56, 61 + 56)]
)
def test_usage_differs_from_what_the_engine_says(mode: str, details: int | None, prompt_tokens: int) -> None:
    async def look(direct: Site, gateway: Site) -> None:
        right = cast(Json, (await post(direct, "/v1/completions", BODY))[1]["usage"])
        wrong = cast(Json, (await post(gateway, "/v1/completions", BODY))[1]["usage"])
        assert cast(Json, right["prompt_tokens_details"])["cached_tokens"] == 56
        found = cast(Json, wrong.get("prompt_tokens_details", {})).get("cached_tokens")
        assert (found, wrong["prompt_tokens"]) == (details, prompt_tokens)
        assert wrong["completion_tokens"] == right["completion_tokens"]
        stream = await events(gateway, "/v1/completions", {**BODY, "stream_options": {"include_usage": True}})
        streamed = cast(Json, cast(Json, stream[-2])["usage"])
        assert cast(Json, streamed.get("prompt_tokens_details", {})).get("cached_tokens") == details
        assert streamed["total_tokens"] == wrong["total_tokens"]
        assert stream[-1] == "[DONE]"

    through(mode, look)


def test_everything_else_passes_unchanged() -> None:
    async def look(direct: Site, gateway: Site) -> None:
        for path in ("/v1/models", "/nowhere"):
            ours, theirs = await gateway.client.get(path), await direct.client.get(path)
            assert (ours.status, orjson.loads(await ours.read())) == (theirs.status, orjson.loads(await theirs.read()))
        refused = await post(gateway, "/v1/completions", {"prompt": PROMPT, "max_tokens": -1})
        assert refused == await post(direct, "/v1/completions", {"prompt": PROMPT, "max_tokens": -1})
        pieces = [event for event in await events(gateway, "/v1/completions", BODY) if isinstance(event, dict)]
        texts = [cast(list[Json], event["choices"])[0]["text"] for event in pieces]
        whole = cast(list[Json], (await post(direct, "/v1/completions", BODY))[1]["choices"])[0]["text"]
        assert "".join(cast(list[str], texts)) == whole

    through("drop", look)


def test_a_miss_is_neither_doubled_nor_billed_twice() -> None:
    for mode in ("double", "cost"):
        gateway = cast(Gateway, parse_fault(f"K35:mode={mode}").build())
        usage: Json = {"prompt_tokens": 61, "total_tokens": 64, "prompt_tokens_details": {"cached_tokens": 0}}
        gateway.spoil(usage)
        assert usage == {"prompt_tokens": 61, "total_tokens": 64, "prompt_tokens_details": {"cached_tokens": 0}}
        assert gateway.dice.triggers == 0
