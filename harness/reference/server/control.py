"""Routes that control a server rather than ask it for text."""

from __future__ import annotations

from aiohttp import web

from harness.reference.server import fields
from harness.reference.server.dialects.vllm import VERSION
from harness.reference.server.errors import RequestError
from harness.reference.server.service import Service, json_response


class Control:
    """Health, tokenization and cache control of one service."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def health(self, _http: web.Request) -> web.Response:
        """GET /health: 200 while every engine lives, else 503."""
        failed = any(worker.failure is not None for worker in self.service.workers)
        return web.Response(status=503 if failed else 200)

    async def version(self, _http: web.Request) -> web.Response:
        """GET /version."""
        return json_response({"version": VERSION})

    async def tokenize(self, http: web.Request) -> web.Response:
        """POST /tokenize: a prompt or a chat to token ids."""
        try:
            body = fields.parse_object(await http.read())
            text = self.service.parser.render(body) if "messages" in body else fields.string(body, "prompt", "")
        except RequestError as error:
            return json_response(self.service.dialect.error(error), error.status)
        tokens = self.service.tokenizer.encode(text)
        return json_response(
            {"count": len(tokens), "max_model_len": self.service.options.max_model_len, "tokens": tokens}
        )

    async def detokenize(self, http: web.Request) -> web.Response:
        """POST /detokenize: token ids to text."""
        try:
            tokens = fields.integers(fields.parse_object(await http.read()), "tokens")
            if not all(0 <= token < self.service.tokenizer.vocab_size for token in tokens):
                raise RequestError("a token id is out of vocabulary", param="tokens")
        except RequestError as error:
            return json_response(self.service.dialect.error(error), error.status)
        return json_response({"prompt": self.service.tokenizer.decode(tokens)})

    async def reset_prefix_cache(self, http: web.Request) -> web.Response:
        """POST /reset_prefix_cache: always 200, success false while anything runs and it is not told to stop it."""
        force = http.query.get("reset_running_requests", "").lower() in ("1", "true")
        done = [await worker.call(lambda engine: engine.reset_cache(force=force)) for worker in self.service.workers]
        return json_response({"success": all(done)})
