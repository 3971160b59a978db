"""A proxy that makes less of a server: without what empties or bypasses its cache, or without log-probabilities.

    python benchmarks/lesser_server.py http://127.0.0.1:8000 --without cold
    python benchmarks/lesser_server.py http://127.0.0.1:8000 --without logprobs

Prints its own address, as `{"listening": URL}`, and passes everything else on. Without flush, salt and bypass a check
can only flood; without log-probabilities it has texts alone.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Collection

import aiohttp
import orjson
from aiohttp import web

MAX_BODY_BYTES = 256 << 20
NOT_PASSED_ON = frozenset({"content-length", "transfer-encoding", "connection", "host"})
FLUSHES = ("/reset_prefix_cache", "/flush_cache", "/slots")
FIELDS = {"cold": ("cache_salt", "cache_prompt"), "logprobs": ("logprobs", "top_logprobs")}
SESSION = web.AppKey("session", aiohttp.ClientSession)


def app_before(upstream: str, without: str) -> web.Application:
    """An application that forwards to the server at the URL `upstream`."""

    async def session_of(app: web.Application) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False) as session:
            app[SESSION] = session
            yield

    async def forward(request: web.Request) -> web.StreamResponse:
        if without == "cold" and request.path.startswith(FLUSHES):
            raise web.HTTPNotFound
        headers = {name: value for name, value in request.headers.items() if name.lower() not in NOT_PASSED_ON}
        body = without_fields(await request.read(), FIELDS[without])
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


def without_fields(body: bytes, fields: Collection[str]) -> bytes:
    """A JSON object without some fields; anything else as it is."""
    if not body.startswith(b"{"):
        return body
    return orjson.dumps({name: value for name, value in orjson.loads(body).items() if name not in fields})


async def serve(upstream: str, without: str) -> None:
    """Serves until standard input closes."""
    runner = web.AppRunner(app_before(upstream, without))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    print(orjson.dumps({"listening": f"http://{host}:{port}"}).decode(), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("upstream")
    parser.add_argument("--without", choices=tuple(FIELDS), default="cold")
    options = parser.parse_args()
    asyncio.run(serve(options.upstream, options.without))
