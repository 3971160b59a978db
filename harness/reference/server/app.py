"""The web application of a service."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from harness.reference.options import DialectName
from harness.reference.server.dialects.base import Dialect
from harness.reference.server.routes import llamacpp, sglang, vllm
from harness.reference.server.routes.control import RouteList
from harness.reference.server.service import Service, json_response

MAX_BODY_BYTES = 256 << 20

EXTRA_ROUTES: dict[DialectName, Callable[[Service], RouteList]] = {
    "vllm": vllm.routes,
    "sglang": sglang.routes,
    "llamacpp": llamacpp.routes,
}


def build_app(service: Service) -> web.Application:
    """The routes every dialect has, and those of the service's own."""
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_plain_errors(service.dialect)])
    app.router.add_post("/v1/completions", service.completions)
    app.router.add_post("/v1/chat/completions", service.chat)
    app.router.add_get("/v1/models", service.models)
    app.router.add_get("/metrics", service.metrics)
    for method, path, handler in EXTRA_ROUTES[service.options.dialect](service):
        app.router.add_route(method, path, handler)
    return app


def _plain_errors(dialect: Dialect) -> Middleware:
    """Answers unknown paths and methods as the dialect does."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPException as error:
            if error.status not in (404, 405):
                raise
            return json_response(dialect.no_route(error.status, error.reason), error.status)

    return middleware
