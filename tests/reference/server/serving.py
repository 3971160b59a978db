"""A server on a small random model, in the test's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache

import orjson
from aiohttp.test_utils import TestClient, TestServer

from harness.reference.assembly import Served, build_engine
from harness.reference.model.model import Model
from harness.reference.options import EngineOptions
from harness.reference.server.app import build_app
from harness.reference.server.running import make_service
from harness.reference.server.service import Service
from harness.reference.tokenizer import StreamDecoder, Tokenizer
from harness.reference.weights.random_weights import random_weights
from tests.reference.driving import tiny_config, tiny_options

Json = dict[str, object]


@cache
def served() -> Served:
    config = replace(tiny_config(), vocab_size=512, context_length=2048)
    tokenizer = Tokenizer.load()
    return Served(
        model=Model(config, random_weights(config, 5)),
        config=config,
        text_stream=lambda: StreamDecoder(tokenizer),
        eos_ids=tokenizer.eos_ids,
    )


def server_options(**changes: object) -> EngineOptions:
    settings: dict[str, object] = {"max_model_len": 1024, "chunk": 64, "model_name": "tiny"}
    return tiny_options(**(settings | changes))


@dataclass
class Site:
    """A running server and a client of it."""

    client: TestClient
    service: Service


@asynccontextmanager
async def serving(options: EngineOptions | None = None) -> AsyncIterator[Site]:
    """A running server that stops at the end."""
    options = options or server_options()
    service = make_service(options, [build_engine(options, served()) for _ in range(options.replicas)])
    server = TestServer(build_app(service))
    for worker in service.workers:
        worker.start(asyncio.get_running_loop())
    async with TestClient(server) as client:
        try:
            yield Site(client, service)
        finally:
            for worker in service.workers:
                worker.stop()


async def post(site: Site, path: str, body: Json) -> tuple[int, Json]:
    async with site.client.post(path, json=body) as response:
        return response.status, orjson.loads(await response.read())


async def events(site: Site, path: str, body: Json) -> list[Json | str]:
    """The events of a stream, parsed; ``[DONE]`` as text."""
    async with site.client.post(path, json={**body, "stream": True}) as response:
        assert response.status == 200, await response.text()
        raw = (await response.read()).decode()
    payloads = [line.removeprefix("data: ") for line in raw.split("\n\n") if line]
    return [payload if payload == "[DONE]" else orjson.loads(payload) for payload in payloads]


async def until(condition: Callable[[], bool]) -> None:
    """Waits for the engine's thread; the test's own timeout bounds it."""
    while not condition():  # noqa: ASYNC110 (there is no event to wait for: the condition is another thread's)
        await asyncio.sleep(0)
