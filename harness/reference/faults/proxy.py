"""The proxy that a faulty gateway runs as: everything is passed on, the usage in answers is changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import aiohttp
import orjson
from aiohttp import web

from harness.reference.faults.gateway import Gateway
from harness.reference.faults.usage_fields import usage_of

MAX_BODY_BYTES = 256 << 20
NOT_PASSED_ON = frozenset({"content-length", "transfer-encoding", "connection", "host"})
EVENT = b"data: "


def proxy_app(upstream: str, gateways: Sequence[Gateway]) -> web.Application:
    """An application that forwards every request to the server at the URL ``upstream``."""

    async def session_of(app: web.Application) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False) as session:
            app[SESSION] = session
            yield

    async def forward(request: web.Request) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in NOT_PASSED_ON}
        body = await request.read()
        url = upstream + request.path_qs
        async with request.app[SESSION].request(request.method, url, data=body, headers=headers) as answer:
            return await _pass_on(request, answer, gateways)

    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.cleanup_ctx.append(session_of)
    app.router.add_route("*", "/{path:.*}", forward)
    return app


SESSION = web.AppKey("session", aiohttp.ClientSession)


async def _pass_on(
    request: web.Request, answer: aiohttp.ClientResponse, gateways: Sequence[Gateway]
) -> web.StreamResponse:
    """Streams event by event; any other body is read whole."""
    headers = {name: value for name, value in answer.headers.items() if name.lower() not in NOT_PASSED_ON}
    if answer.content_type != "text/event-stream":
        body = await answer.read()
        changed = _changed(body, gateways) if answer.content_type == "application/json" else body
        return web.Response(status=answer.status, headers=headers, body=changed)
    response = web.StreamResponse(status=answer.status, headers=headers)
    await response.prepare(request)
    async for line in answer.content:
        if line.startswith(EVENT + b"{"):
            line = EVENT + _changed(line[len(EVENT) :], gateways) + b"\n"
        await response.write(line)
    await response.write_eof()
    return response


def _changed(body: bytes, gateways: Sequence[Gateway]) -> bytes:
    """A JSON text with its usage changed; one without usage comes back as it was."""
    value = orjson.loads(body)
    usage = usage_of(value)
    if usage is None:
        return body.rstrip(b"\n")
    for gateway in gateways:
        gateway.spoil(usage)
    return orjson.dumps(value)
