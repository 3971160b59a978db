"""llama.cpp's routes: properties, slots, tokenization by ``content``."""

from __future__ import annotations

from aiohttp import web

from harness.reference.server import fields
from harness.reference.server.dialects.llamacpp import BUILD
from harness.reference.server.errors import RequestError
from harness.reference.server.fields import Json
from harness.reference.server.routes.control import Control, RouteList
from harness.reference.server.service import Service, json_response


class LlamaRoutes:
    """Handlers of one service; each engine's cache counts as the cache of all its slots."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.control = Control(service)

    async def health(self, _http: web.Request) -> web.Response:
        """GET /health."""
        if self.control.healthy:
            return json_response({"status": "ok"})
        error = RequestError("engine stopped", status=503, kind="unavailable_error")
        return json_response(self.service.dialect.error(error), 503)

    async def props(self, _http: web.Request) -> web.Response:
        """GET /props."""
        options = self.service.options
        return json_response(
            {
                "default_generation_settings": {"params": {}, "n_ctx": options.max_model_len},
                "total_slots": options.slots * options.replicas,
                "model_alias": options.model_name,
                "model_path": options.model_name,
                "chat_template": self.service.tokenizer.chat_template,
                "build_info": BUILD,
                "is_sleeping": False,
            }
        )

    async def slots(self, _http: web.Request) -> web.Response:
        """GET /slots."""
        options = self.service.options
        rows = []
        for worker in self.service.workers:
            busy = await worker.call(lambda engine: {sequence.slot for sequence in engine.scheduler.running})
            rows += [{"is_processing": slot in busy} for slot in range(options.slots)]
        fixed = {"n_ctx": options.max_model_len, "speculative": options.speculative_tokens > 0}
        return json_response([{"id": index, **fixed, **row} for index, row in enumerate(rows)])

    async def slot_action(self, http: web.Request) -> web.Response:
        """POST /slots/N?action=erase: empties the cache behind slot N; ``n_erased`` counts its tokens."""
        options, number, action = self.service.options, http.match_info["slot"], http.query.get("action")
        if not number.isdigit() or int(number) >= options.slots * options.replicas:
            return self._refuse(RequestError("Invalid slot ID"))
        if action != "erase":
            return self._refuse(RequestError("Invalid action", status=501, kind="not_supported_error"))
        worker = self.service.workers[int(number) // options.slots]
        erased = await worker.call(lambda engine: engine.erase_cache())
        return json_response({"id_slot": int(number), "n_erased": erased})

    async def tokenize(self, http: web.Request) -> web.Response:
        """POST /tokenize: ``{content}`` to ``{tokens}``."""

        def answer(body: Json) -> object:
            return {"tokens": self.service.tokenizer.encode(fields.string(body, "content", ""))}

        return await self.control.with_body(http, answer)

    async def detokenize(self, http: web.Request) -> web.Response:
        """POST /detokenize: ``{tokens}`` to ``{content}``."""
        return await self.control.with_body(http, lambda body: {"content": self.control.text_of(body)})

    async def apply_template(self, http: web.Request) -> web.Response:
        """POST /apply-template: a chat to ``{prompt}``."""
        return await self.control.with_body(http, lambda body: {"prompt": self.service.parser.render(body)})

    def _refuse(self, error: RequestError) -> web.Response:
        return json_response(self.service.dialect.error(error), error.status)


def routes(service: Service) -> RouteList:
    """Method, path and handler of each."""
    own = LlamaRoutes(service)
    return [
        ("GET", "/health", own.health),
        ("GET", "/v1/health", own.health),
        ("GET", "/props", own.props),
        ("GET", "/slots", own.slots),
        ("POST", "/slots/{slot}", own.slot_action),
        ("POST", "/tokenize", own.tokenize),
        ("POST", "/detokenize", own.detokenize),
        ("POST", "/apply-template", own.apply_template),
    ]
