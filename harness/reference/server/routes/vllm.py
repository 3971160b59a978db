"""vLLM's routes, those of its development mode included."""

from __future__ import annotations

from aiohttp import web

from harness.reference.server.dialects.vllm import VERSION
from harness.reference.server.routes.control import Control, RouteList
from harness.reference.server.service import Service, json_response


def routes(service: Service) -> RouteList:
    """Method, path and handler of each."""
    control = Control(service)

    async def version(_http: web.Request) -> web.Response:
        return json_response({"version": VERSION})

    async def load(_http: web.Request) -> web.Response:
        return json_response({"server_load": sum(view.running + view.waiting for view in service.views())})

    async def reset_prefix_cache(http: web.Request) -> web.Response:
        """Always 200; success is false while anything runs and it is not told to stop it."""
        force = http.query.get("reset_running_requests", "").lower() in ("1", "true")
        return json_response({"success": await control.reset(force=force)})

    return [
        ("GET", "/health", control.health),
        ("GET", "/version", version),
        ("GET", "/load", load),
        ("POST", "/tokenize", control.tokenize),
        ("POST", "/detokenize", control.detokenize),
        ("POST", "/reset_prefix_cache", reset_prefix_cache),
    ]
