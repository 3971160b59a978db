"""SGLang's routes: native generation, cache flush, server information, aborts."""

from __future__ import annotations

import asyncio

from aiohttp import web

from harness.reference.options import OPTIONS
from harness.reference.server import fields
from harness.reference.server.dialects.sglang import VERSION
from harness.reference.server.dialects.sglang_generate import parse_generate
from harness.reference.server.fields import Json
from harness.reference.server.routes.control import Control, RouteList
from harness.reference.server.service import Service, json_response
from harness.reference.server.view import EngineView

FLUSHED = (
    "Cache flushed.\nPlease check backend logs for more details. "
    "(When there are running or waiting requests, the operation will not be performed.)\n"
)


class SglangRoutes:
    """Handlers that need more than a line."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.control = Control(service)
        self.flushing = False

    async def generate(self, http: web.Request) -> web.StreamResponse:
        """POST /generate."""
        return await self.service.serve(http, lambda body: parse_generate(self.service.parser, body))

    async def flush_cache(self, http: web.Request) -> web.Response:
        """GET or POST /flush_cache: 400 while anything runs, after waiting up to ``timeout`` seconds for it to end.

        Only one flush waits at a time.
        """
        try:
            wait_s = float(http.query.get("timeout", "0"))
        except ValueError:
            return json_response({"detail": "timeout: Input should be a valid number"}, 422)
        if self.flushing:
            return web.Response(status=400, text="Flush cache failed.\n")
        self.flushing = True
        try:
            async with asyncio.timeout(wait_s):
                for worker in self.service.workers:
                    await worker.idle()
        except TimeoutError:
            pass  # busy still: the reset below says so
        finally:
            self.flushing = False
        done = await self.control.reset(force=False)
        return web.Response(status=200 if done else 400, text=FLUSHED if done else "Flush cache failed.\n")

    async def abort_request(self, http: web.Request) -> web.Response:
        """POST /abort_request: one request by its ``rid``, or all of them."""

        def abort(body: Json) -> object:
            everyone = fields.boolean(body, "abort_all", False)
            wanted = list(self.service.live) if everyone else [fields.string(body, "rid", "")]
            for worker, ids in (self.service.live[rid] for rid in wanted if rid in self.service.live):
                for request_id in ids:
                    worker.end(request_id)
            return {}

        return await self.control.with_body(http, abort)

    async def server_info(self, _http: web.Request) -> web.Response:
        """GET /server_info: every option, and the state of each engine."""
        options = self.service.options
        told = (option.name for option in OPTIONS if option.name != "fault")  # who plants one wants it found
        body: dict[str, object] = {name: getattr(options, name) for name in told}
        body |= {
            "model_path": options.model_name,
            "served_model_name": options.model_name,
            "context_length": options.max_model_len,
            "page_size": options.block_size,
            "chunked_prefill_size": options.chunk,
            "disable_radix_cache": options.no_prefix_caching,
            "enable_cache_report": not options.no_cache_report,
            "enable_metrics": True,
            "enable_hierarchical_cache": options.host_bytes > 0,
            "speculative_algorithm": "NEXTN" if options.speculative_tokens else None,
            "speculative_num_steps": options.speculative_tokens or None,
            "speculative_num_draft_tokens": options.speculative_tokens + 1 if options.speculative_tokens else None,
            "max_total_num_tokens": self.service.views()[0].capacity_tokens,
            "internal_states": [_state(view) for view in self.service.views()],
            "version": VERSION,
            "frontend": "python",
        }
        return json_response(body)

    async def model_info(self, _http: web.Request) -> web.Response:
        """GET /model_info."""
        name = self.service.options.model_name
        known = {"model_path": name, "served_model_name": name, "tokenizer_path": name, "is_generation": True}
        architectures = ["BailingMoeV3ForCausalLM"]
        return json_response({**known, "weight_version": "default", "architectures": architectures})

    async def loads(self, _http: web.Request) -> web.Response:
        """GET /v1/loads."""
        return json_response({"loads": [_load(view, index) for index, view in enumerate(self.service.views())]})


def routes(service: Service) -> RouteList:
    """Method, path and handler of each."""
    own = SglangRoutes(service)

    async def detokenize(http: web.Request) -> web.Response:
        return await own.control.with_body(http, lambda body: {"text": own.control.text_of(body)})

    return [
        ("GET", "/health", own.control.health),
        ("GET", "/ready", own.control.health),
        ("POST", "/generate", own.generate),
        ("GET", "/flush_cache", own.flush_cache),
        ("POST", "/flush_cache", own.flush_cache),
        ("POST", "/abort_request", own.abort_request),
        ("GET", "/server_info", own.server_info),
        ("GET", "/get_server_info", own.server_info),
        ("GET", "/model_info", own.model_info),
        ("GET", "/get_model_info", own.model_info),
        ("GET", "/v1/loads", own.loads),
        ("POST", "/tokenize", own.control.tokenize),
        ("POST", "/v1/tokenize", own.control.tokenize),
        ("POST", "/detokenize", detokenize),
    ]


def _state(view: EngineView) -> dict[str, object]:
    stats = view.stats
    length = 1 + stats.accepted_tokens / stats.draft_steps if stats.draft_steps else None
    return {
        "memory_usage": {"token_capacity": view.capacity_tokens},
        "max_running_requests": view.options.slots,
        "avg_spec_accept_length": length,
    }


def _load(view: EngineView, rank: int) -> dict[str, object]:
    return {
        "dp_rank": rank,
        "num_running_reqs": view.running,
        "num_waiting_reqs": view.waiting,
        "max_total_num_tokens": view.capacity_tokens,
        "token_usage": view.memory_share,
    }
