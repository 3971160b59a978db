"""Routes that more than one dialect has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from harness.reference.server import fields
from harness.reference.server.errors import RequestError
from harness.reference.server.fields import Json
from harness.reference.server.service import Service, json_response

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
RouteList = list[tuple[str, str, Handler]]


class Control:
    """Health, tokenization and cache control of one service."""

    def __init__(self, service: Service) -> None:
        self.service = service

    @property
    def healthy(self) -> bool:
        """Whether every engine lives."""
        return all(worker.failure is None for worker in self.service.workers)

    async def health(self, _http: web.Request) -> web.Response:
        """GET /health: an empty 200, or 503 when an engine has stopped."""
        return web.Response(status=200 if self.healthy else 503)

    async def tokenize(self, http: web.Request) -> web.Response:
        """POST /tokenize: a prompt or a chat to ``{count, max_model_len, tokens}``."""
        return await self.with_body(http, self._tokenize)

    async def detokenize(self, http: web.Request) -> web.Response:
        """POST /detokenize: ``{tokens}`` to ``{prompt}``."""
        return await self.with_body(http, lambda body: {"prompt": self.text_of(body)})

    async def with_body(self, http: web.Request, answer: Callable[[Json], object]) -> web.Response:
        """Answers a JSON body, or refuses it as the dialect does."""
        try:
            return json_response(answer(fields.parse_object(await http.read())))
        except RequestError as error:
            return json_response(self.service.dialect.error(error), error.status)

    async def reset(self, *, force: bool) -> bool:
        """Empties every engine's cache; False when one was busy and not forced."""
        done = [await worker.call(lambda engine: engine.reset_cache(force=force)) for worker in self.service.workers]
        return all(done)

    def tokens_of(self, body: Json) -> list[int]:
        """The ids of a body's prompt or chat."""
        chat = "messages" in body
        text = self.service.parser.render(body) if chat else fields.string(body, "prompt", "")
        return self.service.tokenizer.encode(text)

    def text_of(self, body: Json) -> str:
        """The text of a body's tokens."""
        tokens = fields.integers(body, "tokens")
        if not all(0 <= token < self.service.tokenizer.vocab_size for token in tokens):
            raise RequestError("a token id is out of vocabulary", param="tokens")
        return self.service.tokenizer.decode(tokens)

    def _tokenize(self, body: Json) -> object:
        tokens = self.tokens_of(body)
        return {"count": len(tokens), "max_model_len": self.service.options.max_model_len, "tokens": tokens}
