"""A proxy that takes from a server what empties or bypasses its cache: no flush, no salt, no bypass.

    python benchmarks/flood_only.py http://127.0.0.1:8000

Prints its own address, as `{"listening": URL}`, and passes everything else on. What is left to a check is to flood.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import aiohttp
import orjson
from aiohttp import web

MAX_BODY_BYTES = 256 << 20
NOT_PASSED_ON = frozenset({"content-length", "transfer-encoding", "connection", "host"})
FLUSHES = ("/reset_prefix_cache", "/flush_cache", "/slots")
COLD_FIELDS = ("cache_salt", "cache_prompt")
SESSION = web.AppKey("session", aiohttp.ClientSession)


def app_before(upstream: str) -> web.Application:
    """An application that forwards to the server at the URL `upstream`."""

    async def session_of(app: web.Application) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False) as session:
            app[SESSION] = session
            yield

    async def forward(request: web.Request) -> web.StreamResponse:
        if request.path.startswith(FLUSHES):
            raise web.HTTPNotFound
        headers = {name: value for name, value in request.headers.items() if name.lower() not in NOT_PASSED_ON}
        body = without_fields(await request.read())
        url = upstream + request.path_qs
        async with request.app[SESSION].request(request.method, url, data=body, headers=headers) as answer:
            passed = {name: value for name, value in answer.headers.items() if name.lower() not in NOT_PASSED_ON}
            response = web.StreamResponse(status=answer.status, headers=passed)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response

    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.cleanup_ctx.append(session_of)
    app.router.add_route("*", "/{path:.*}", forward)
    return app


def without_fields(body: bytes) -> bytes:
    """A JSON object without what would keep a request from the cache; anything else as it is."""
    if not body.startswith(b"{"):
        return body
    return orjson.dumps({name: value for name, value in orjson.loads(body).items() if name not in COLD_FIELDS})


async def serve(upstream: str) -> None:
    """Serves until standard input closes."""
    runner = web.AppRunner(app_before(upstream))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    print(orjson.dumps({"listening": f"http://{host}:{port}"}).decode(), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
