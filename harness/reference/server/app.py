"""The web application of a service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from harness.reference.options import DialectName
from harness.reference.server.control import Control
from harness.reference.server.service import Service, json_response

MAX_BODY_BYTES = 256 << 20

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build_app(service: Service) -> web.Application:
    """Routes of the service's dialect."""
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[plain_errors])
    control = Control(service)
    app.router.add_post("/v1/completions", service.completions)
    app.router.add_post("/v1/chat/completions", service.chat)
    app.router.add_get("/v1/models", service.models)
    app.router.add_get("/metrics", service.metrics)
    for method, path, handler in EXTRA_ROUTES[service.options.dialect](control):
        app.router.add_route(method, path, handler)
    return app


@web.middleware
async def plain_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Unknown paths and methods are answered in JSON."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.status not in (404, 405):
            raise
        return json_response({"detail": error.reason}, error.status)


def vllm_routes(control: Control) -> list[tuple[str, str, Handler]]:
    """What vLLM serves beside text, its development routes included."""
    return [
        ("GET", "/health", control.health),
        ("GET", "/version", control.version),
        ("POST", "/tokenize", control.tokenize),
        ("POST", "/detokenize", control.detokenize),
        ("POST", "/reset_prefix_cache", control.reset_prefix_cache),
    ]


EXTRA_ROUTES: dict[DialectName, Callable[[Control], list[tuple[str, str, Handler]]]] = {"vllm": vllm_routes}
