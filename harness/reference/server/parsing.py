"""From JSON bodies to asks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from harness.reference.constraint.chat import THINK_START, Forms
from harness.reference.sampling import SamplingParams
from harness.reference.scheduler.request import PromptScore
from harness.reference.server import fields
from harness.reference.server.ask import Ask, Route
from harness.reference.server.chat_parsing import chat_form, thinks
from harness.reference.server.errors import RequestError
from harness.reference.server.fields import Json
from harness.reference.server.rules import Rules, ZeroTokens
from harness.reference.tokenizer import Tokenizer

MAX_CHOICES = 64
LONGEST_SALT = 128
UNSUPPORTED = {"presence_penalty": 0, "frequency_penalty": 0, "repetition_penalty": 1, "best_of": 1, "logit_bias": {}}
"""Fields whose effect the engine does not have, with the values that mean none."""


class Parser:
    """Reads requests by one dialect's rules.

    ``too_long`` makes the refusal of a prompt (tokens) and answer (tokens, None when not named) that the context
    cannot hold.
    """

    def __init__(
        self,
        *,
        rules: Rules,
        tokenizer: Tokenizer,
        model_name: str,
        max_model_len: int,
        seed: int,
        too_long: Callable[[int, int | None], RequestError],
    ) -> None:
        self.rules = rules
        self.tokenizer = tokenizer
        self.model_name = model_name
        self.max_model_len = max_model_len
        self.too_long = too_long
        self.forms = Forms(tokenizer)
        self._seeds = itertools.count(seed * 1_000_003 + 1)

    def completion(self, body: Json) -> Ask:
        """A /v1/completions request."""
        prompts = self.prompts(body)
        top = self._logprob_count(body, "logprobs") if body.get("logprobs") is not None else None
        echo = fields.boolean(body, "echo", False) and self.rules.scores_prompts
        score = self._score(body, top if echo else None)
        return self._ask(Route.COMPLETION, body, prompts, top=top, score=score, echo=echo)

    def chat(self, body: Json) -> Ask:
        """A /v1/chat/completions request."""
        form = chat_form(body, self.forms, self.rules)
        prompt = tuple(self.tokenizer.encode(self.render(body)))
        wants = fields.boolean(body, "logprobs", False)
        top = self._logprob_count(body, "top_logprobs") if wants else None
        ask = self._ask(Route.CHAT, body, (prompt,), top=top, score=self._score(body, None))
        if ask.stream and ask.return_token_ids and not self.rules.streams_chat_ids:
            raise RequestError(
                "return_token_ids is not supported with streaming on /v1/chat/completions. "
                "Please set stream=false when using return_token_ids=true.",
                kind="BadRequest",
            )
        return replace(ask, constraint=form.constraint, thinking=form.thinking, calls_tools=form.calls_tools)

    def render(self, body: Json) -> str:
        """The prompt text of a chat body; with thinking it ends inside an opened block of reasoning."""
        messages = [_message(message) for message in fields.objects(body, "messages")]
        if not messages:
            raise RequestError("messages must not be empty", param="messages")
        opened = fields.boolean(body, "add_generation_prompt", True)
        text = self.tokenizer.render_chat(messages, fields.objects(body, "tools") or None, add_generation_prompt=opened)
        return text + THINK_START + "\n" if opened and thinks(body) else text

    def prompts(self, body: Json) -> tuple[tuple[int, ...], ...]:
        """The prompts of a completion: one text, several, one list of ids, or several.

        Raises:
            RequestError: none at all, an empty one, or an id outside the vocabulary.
        """
        prompt = body.get("prompt")
        items = prompt if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else [prompt]
        prompts = tuple(self._prompt(item) for item in items)
        if not all(prompts):
            raise RequestError("Either prompt or prompt_embeds must be provided and non-empty.", param="prompt")
        return prompts

    def _prompt(self, item: object) -> tuple[int, ...]:
        if item is None:
            return ()
        if isinstance(item, str):
            return tuple(self.tokenizer.encode(item))
        if not isinstance(item, list) or not all(isinstance(token, int) for token in item):
            raise fields.wrong_type("prompt", "string or a list of integers")
        if not all(0 <= token < self.tokenizer.vocab_size for token in item):
            raise RequestError(f"Token id {max(item)} is out of vocabulary", param="prompt")
        return tuple(item)

    def _ask(
        self,
        route: Route,
        body: Json,
        prompts: tuple[tuple[int, ...], ...],
        *,
        top: int | None,
        score: PromptScore | None,
        echo: bool = False,
    ) -> Ask:
        for name, harmless in UNSUPPORTED.items():
            if body.get(name) not in (None, harmless):
                raise RequestError(f"{name} is not supported by the embedded engine", param=name)
        stream = fields.boolean(body, "stream", False)
        stream_options = fields.mapping(body, "stream_options") if stream else {}
        n = fields.integer(body, "n", 1, least=1)
        if n > MAX_CHOICES:
            raise RequestError(f"n must be at most {MAX_CHOICES}, got {n}.", param="n", value=n)
        return Ask(
            route=route,
            model=self.model(body),
            prompts=prompts,
            sampling=self.sampling(body, route, max(map(len, prompts)), top),
            n=n,
            stream=stream,
            include_usage=fields.boolean(stream_options, "include_usage", False),
            continuous_usage=fields.boolean(stream_options, "continuous_usage_stats", False),
            return_token_ids=fields.boolean(body, "return_token_ids", False),
            echo=echo,
            score=score,
            cache_salt=self._salt(body) if self.rules.knows_salt else "",
            reads_cache=self.rules.cache_field is None or fields.boolean(body, self.rules.cache_field, True),
            given_id=fields.string(body, self.rules.id_field, ""),
            flags=frozenset(flag for flag in self.rules.flags if fields.boolean(body, flag, False)),
        )

    def model(self, body: Json) -> str:
        """The model asked for.

        Raises:
            RequestError: 404 when it is not the served one and the dialect cares.
        """
        model = fields.string(body, "model", self.model_name)
        if self.rules.checks_model and model != self.model_name:
            raise RequestError(
                f"The model `{model}` does not exist. Valid aliases: {self.model_name}.",
                status=404,
                kind="NotFoundError",
                param="model",
            )
        return model

    def sampling(self, body: Json, route: Route, prompt_tokens: int, top: int | None) -> SamplingParams:
        """How to sample, with the answer's length fitted to the context.

        Raises:
            RequestError: a field out of range, or prompt and answer do not fit.
        """
        temperature = fields.number(body, "temperature", self.rules.default_temperature)
        if temperature < 0 and self.rules.checks_temperature:
            raise RequestError(
                f"temperature must be non-negative, got {temperature}.", param="temperature", value=temperature
            )
        try:
            return SamplingParams(
                temperature=max(temperature, 0.0),
                top_p=fields.number(body, "top_p", 1.0),
                top_k=max(0, fields.integer(body, "top_k", 0)),
                min_p=fields.number(body, "min_p", 0.0),
                seed=fields.integer(body, "seed", next(self._seeds)),
                max_tokens=self._max_tokens(body, route, prompt_tokens),
                min_tokens=fields.integer(body, "min_tokens", 0, least=0),
                ignore_eos=fields.boolean(body, "ignore_eos", False),
                stop=fields.strings(body, "stop"),
                stop_token_ids=fields.integers(body, "stop_token_ids"),
                logprobs=top,
            )
        except ValueError as error:
            raise RequestError(str(error)) from error

    def _max_tokens(self, body: Json, route: Route, prompt_tokens: int) -> int:
        chat = route is Route.CHAT
        name = "max_completion_tokens" if chat and body.get("max_completion_tokens") is not None else "max_tokens"
        room = self.max_model_len - prompt_tokens
        if body.get(name) is None:
            if room < 1:
                raise self.too_long(prompt_tokens, None)
            default = room if chat or self.rules.default_tokens is None else self.rules.default_tokens
            return min(default, room)
        wanted = fields.integer(body, name, 0)
        zero = self.rules.zero_tokens_chat if chat else self.rules.zero_tokens
        if wanted == 0 and zero is ZeroTokens.ONE:
            wanted = 1
        if wanted < 0 and self.rules.clips_length:
            wanted = max(room, 1)
        least = 0 if zero is ZeroTokens.EMPTY else 1
        if wanted < least:
            raise RequestError(f"{name} must be at least {least}, got {wanted}.", param=name, value=wanted)
        if room < 1 or (wanted > room and not self.rules.clips_length):
            raise self.too_long(prompt_tokens, wanted)
        return min(wanted, room)

    def _salt(self, body: Json) -> str:
        salt = fields.string(body, "cache_salt", "")
        if self.rules.checks_salt and (len(salt) > LONGEST_SALT or set(salt) & set("@/\\\0")):
            message = f"cache_salt must have at most {LONGEST_SALT} characters and no @, slash or NUL"
            raise RequestError(message, param="cache_salt")
        return salt

    def _logprob_count(self, body: Json, name: str) -> int:
        count = fields.integer(body, name, 0, least=0)
        limit = self.rules.max_logprobs
        if limit is not None and count > limit:
            message = f"Requested sample logprobs of {count}, which is greater than max allowed: {limit}"
            raise RequestError(message, param=name, value=count)
        return min(count, self.tokenizer.vocab_size)

    def _score(self, body: Json, echoed: int | None) -> PromptScore | None:
        """Whether the prompt is to be scored: ``prompt_logprobs``, or logprobs of an echoed prompt."""
        if not self.rules.scores_prompts:
            return None
        if body.get("prompt_logprobs") is not None:
            return PromptScore(start=0, top=self._logprob_count(body, "prompt_logprobs"), reads_cache=False)
        if echoed is not None:
            return PromptScore(start=0, top=echoed, reads_cache=self.rules.scores_read_cache)
        return None


def _message(message: Json) -> Json:
    """A chat message with its content as one text."""
    content = message.get("content")
    if not isinstance(message.get("role"), str):
        raise RequestError("each message needs a role", param="messages")
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else None for part in content]
        if not all(isinstance(part, str) for part in parts):
            raise RequestError("only text parts are supported", param="messages")
        content = "".join(str(part) for part in parts)
    return {**message, "content": content}
