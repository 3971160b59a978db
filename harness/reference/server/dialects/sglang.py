"""SGLang's replies, errors and fields; the native route is in sglang_generate."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client.metrics_core import Metric

from harness.reference.options import EngineOptions
from harness.reference.server import logprobs as shapes
from harness.reference.server.ask import Route
from harness.reference.server.dialects import sglang_generate, sglang_metrics
from harness.reference.server.dialects.base import Json
from harness.reference.server.dialects.pieces import call_deltas, calls_body, finish_reason
from harness.reference.server.errors import RequestError
from harness.reference.server.reply import Choice, Envelope, totals
from harness.reference.server.rules import Rules, ZeroTokens
from harness.reference.server.view import EngineView
from harness.reference.tokenizer import Tokenizer

VERSION = "0.5.23"


class SglangDialect:
    """As SGLang 0.5.23 writes; cached tokens come with ``--enable-cache-report`` there."""

    rules = Rules(
        checks_model=False,
        max_logprobs=None,
        zero_tokens=ZeroTokens.REFUSED,
        zero_tokens_chat=ZeroTokens.EMPTY,
        scores_read_cache=True,
        clips_length=False,
        default_tokens=16,
        default_temperature=1.0,
        checks_temperature=True,
        named_tools=True,
        unknown_tool="Tool '{name}' not found in tools list.",
        streams_chat_ids=False,
        id_field="rid",
        flags=("return_cached_tokens_details", "return_spec_tokens_details", "return_meta_info"),
    )

    def __init__(self, options: EngineOptions, tokenizer: Tokenizer) -> None:
        self.options = options
        self.tokenizer = tokenizer

    def reply_id(self, route_prefix: str, request_id: str) -> str:
        """The request's id, with nothing before it."""
        return request_id

    def models(self, created_s: int) -> Json:
        """One model, with its context length."""
        name = self.options.model_name
        model = {"id": name, "object": "model", "created": created_s, "owned_by": "sglang", "root": name}
        return {"object": "list", "data": [{**model, "parent": None, "max_model_len": self.options.max_model_len}]}

    def whole(self, envelope: Envelope, choices: list[Choice]) -> object:
        """A completion, a chat answer or a native answer."""
        if envelope.ask.route is Route.GENERATE:
            return sglang_generate.whole(self.tokenizer, envelope, choices)
        chat = envelope.ask.route is Route.CHAT
        body: Json = {
            **self._head(envelope, "chat.completion" if chat else "text_completion"),
            "choices": [self._chat_choice(envelope, c) if chat else self._text_choice(envelope, c) for c in choices],
            "usage": self._usage(envelope, choices, details=True),
            "metadata": {"weight_version": "default"},
        }
        extension = self._extension(envelope, choices)
        return {**body, "sglext": extension} if extension else body

    def events(self, envelope: Envelope, choice: Choice) -> list[Json]:
        """One event a delta; a chat begins with the role and ends with an empty delta that has the finish reason."""
        if envelope.ask.route is Route.GENERATE:
            return [sglang_generate.event(self.tokenizer, envelope, choice)]
        if envelope.ask.route is Route.CHAT:
            return self._chat_events(envelope, choice)
        return [self._text_event(envelope, choice)]

    def last_events(self, envelope: Envelope, choices: list[Choice]) -> list[Json]:
        """The extension event and the usage event, each if asked for."""
        if envelope.ask.route is Route.GENERATE:
            return []
        head = self._head(envelope, "chat.completion.chunk" if envelope.ask.route is Route.CHAT else "text_completion")
        extension = self._extension(envelope, choices)
        events: list[Json] = [{**head, "choices": [], "sglext": extension}] if extension else []
        if envelope.ask.include_usage:
            events.append({**head, "choices": [], "usage": self._usage(envelope, choices, details=True)})
        return events

    def error(self, error: RequestError) -> Json:
        """``{object, message, type, param, code}``; the parameter is never named."""
        return {
            "object": "error",
            "message": error.message,
            "type": error.kind,
            "param": None,
            "code": error.status,
        }

    def stream_error(self, error: RequestError) -> Json:
        """The same object, wrapped."""
        return {"error": self.error(error)}

    def closes_after_error(self) -> bool:
        """It does."""
        return True

    def queue_full(self) -> RequestError:
        """503."""
        return RequestError("The request queue is full.", status=503, kind="SERVICE_UNAVAILABLE")

    def refuses_in_stream(self) -> bool:
        """The refusal is the first thing that the stream yields."""
        return True

    def no_route(self, status: int, reason: str) -> Json:
        """FastAPI's ``{"detail": reason}``."""
        return {"detail": reason}

    def too_long(self, prompt_tokens: int, answer_tokens: int | None) -> RequestError:
        """SGLang names the prompt when it alone is too long, else the sum."""
        limit = self.options.max_model_len
        if prompt_tokens >= limit or answer_tokens is None:
            text = f"The input ({prompt_tokens} tokens) is longer than the model's context length ({limit} tokens)."
            return RequestError(text)
        return RequestError(
            f"Requested token count exceeds the model's maximum context length of {limit} tokens. You requested a "
            f"total of {prompt_tokens + answer_tokens} tokens: {prompt_tokens} tokens from the input messages and "
            f"{answer_tokens} tokens for the completion. Please reduce the number of tokens in the input messages or "
            "the completion to fit within the limit."
        )

    def metrics(self, views: Sequence[EngineView]) -> list[Metric]:
        """SGLang's metric names."""
        return sglang_metrics.families(views)

    def _head(self, envelope: Envelope, kind: str) -> Json:
        return {
            "id": envelope.reply_id,
            "object": kind,
            "created": envelope.created_s,
            "model": envelope.ask.model,
        }

    def _usage(self, envelope: Envelope, choices: list[Choice], *, details: bool) -> Json:
        counts = totals(envelope.ask, choices)
        shown = details and not self.options.no_cache_report
        return {
            "prompt_tokens": counts.prompt_tokens,
            "total_tokens": counts.total_tokens,
            "completion_tokens": counts.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": counts.cached_tokens} if shown else None,
            "reasoning_tokens": counts.reasoning_tokens,
            "completion_tokens_details": None,
        }

    def _running_usage(self, envelope: Envelope, choice: Choice) -> Json | None:
        """Continuous usage needs no ``include_usage`` here; only chats have cached tokens in it."""
        if not envelope.ask.continuous_usage:
            return None
        counts = self._usage(envelope, [choice], details=envelope.ask.route is Route.CHAT)
        prompt, done = len(choice.prompt), len(choice.tokens)
        return {**counts, "prompt_tokens": prompt, "total_tokens": prompt + done, "completion_tokens": done}

    def _extension(self, envelope: Envelope, choices: list[Choice]) -> Json:
        """``sglext``: cached tokens by tier (absent when nothing was cached) and drafting counts, if asked for."""
        flags, extension = envelope.ask.flags, Json()
        counts = totals(envelope.ask, choices)
        if "return_cached_tokens_details" in flags and counts.cached_tokens:
            device = counts.cached_tokens - counts.host_tokens
            extension["cached_tokens_details"] = {"device": device, "host": counts.host_tokens}
        if "return_spec_tokens_details" in flags and self.options.speculative_tokens:
            details = [sglang_generate.speculation(choice) for choice in choices]
            extension["spec_tokens_details"] = details[0] if len(details) == 1 else details
        return extension

    def _text_choice(self, envelope: Envelope, choice: Choice) -> Json:
        ask = envelope.ask
        body: Json = {
            "index": choice.index,
            "text": (self.tokenizer.decode(choice.prompt) if ask.echo else "") + choice.text,
            "logprobs": self._legacy(envelope, choice, streamed=False),
            "finish_reason": finish_reason(choice),
            "matched_stop": sglang_generate.matched_stop(self.tokenizer, choice),
        }
        if ask.return_token_ids:
            body |= {"token_ids": list(choice.tokens), "prompt_token_ids": list(choice.prompt)}
        return body

    def _text_event(self, envelope: Envelope, choice: Choice) -> Json:
        ask, delta, first = envelope.ask, choice.newest, choice.events == 1
        assert delta is not None
        body: Json = {
            "index": choice.index,
            "text": (self.tokenizer.decode(choice.prompt) if ask.echo and first else "") + delta.text,
            "logprobs": self._legacy(envelope, choice, streamed=True),
            "finish_reason": finish_reason(choice),
            "matched_stop": sglang_generate.matched_stop(self.tokenizer, choice),
        }
        if ask.return_token_ids:
            body["token_ids"] = list(delta.tokens)
            if first:
                body["prompt_token_ids"] = list(choice.prompt)
        usage = self._running_usage(envelope, choice)
        return {**self._head(envelope, "text_completion"), "choices": [body], "usage": usage}

    def _chat_choice(self, envelope: Envelope, choice: Choice) -> Json:
        """An answer that is nothing but reasoning counts as content, as the Ling parser has it when not streaming."""
        only_reasoning = choice.reasoning and not choice.content and not choice.calls
        message: Json = {
            "role": "assistant",
            "content": choice.reasoning if only_reasoning else (None if choice.calls else choice.content),
            "reasoning_content": None if only_reasoning else choice.reasoning or None,
        }
        if choice.calls:
            message["tool_calls"] = [{**call, "index": index} for index, call in enumerate(calls_body(choice))]
        body: Json = {
            "index": choice.index,
            "message": message,
            "logprobs": shapes.chat_shape(self.tokenizer, choice.logprobs) if choice.logprobs else None,
            "finish_reason": finish_reason(choice),
            "matched_stop": sglang_generate.matched_stop(self.tokenizer, choice),
        }
        if envelope.ask.return_token_ids:
            body |= {"response_token_ids": list(choice.tokens), "prompt_token_ids": list(choice.prompt)}
        if "return_meta_info" in envelope.ask.flags:
            body["meta_info"] = sglang_generate.meta_info(self.tokenizer, envelope, choice)
        return body

    def _chat_events(self, envelope: Envelope, choice: Choice) -> list[Json]:
        deltas: list[Json] = [{"role": "assistant", "content": ""}] if choice.events == 1 else []
        role_only = len(deltas)
        if choice.fresh.reasoning:
            deltas.append({"reasoning_content": choice.fresh.reasoning})
        deltas += [{"content": None, "tool_calls": [call]} for call in call_deltas(choice)]
        if choice.fresh.content:
            deltas.append({"content": choice.fresh.content})
        events = []
        for index, delta in enumerate(deltas):
            events.append(self._chat_event(envelope, choice, delta, logprobs=index == role_only))
        if choice.finish is not None:
            events.append(self._chat_event(envelope, choice, {}, logprobs=len(deltas) == role_only, last=True))
        return events

    def _chat_event(
        self, envelope: Envelope, choice: Choice, delta: Json, *, logprobs: bool, last: bool = False
    ) -> Json:
        """One event; the step's logprobs go with its first text, the finish reason with the last, empty delta."""
        newest = choice.newest
        assert newest is not None
        shown = logprobs and bool(newest.logprobs)
        body: Json = {
            "index": choice.index,
            "delta": {"reasoning_content": None, **delta},
            "logprobs": shapes.chat_shape(self.tokenizer, newest.logprobs) if shown else None,
            "finish_reason": finish_reason(choice) if last else None,
            "matched_stop": sglang_generate.matched_stop(self.tokenizer, choice) if last else None,
        }
        event: Json = {**self._head(envelope, "chat.completion.chunk"), "choices": [body]}
        usage = self._running_usage(envelope, choice)
        return event if usage is None else {**event, "usage": usage}

    def _legacy(self, envelope: Envelope, choice: Choice, *, streamed: bool) -> Json | None:
        if envelope.ask.sampling.logprobs is None or choice.newest is None:
            return None
        entries = list(choice.newest.logprobs if streamed else choice.logprobs)
        tokens = list(choice.newest.tokens if streamed else choice.tokens)
        if choice.prompt_logprobs is not None and (choice.events == 1 or not streamed):
            entries_all, tokens_all = [*choice.prompt_logprobs, *entries], [*choice.prompt, *tokens]
            return shapes.legacy_shape(self.tokenizer, entries_all, None, tokens_all)
        return shapes.legacy_shape(self.tokenizer, entries, None, tokens)
