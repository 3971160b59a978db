"""llama.cpp's replies, errors and fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prometheus_client.metrics_core import Metric

from harness.reference.options import EngineOptions
from harness.reference.sampling import TokenLogprob
from harness.reference.server import logprobs as shapes
from harness.reference.server.ask import Route
from harness.reference.server.dialects import llamacpp_metrics
from harness.reference.server.dialects.base import Json
from harness.reference.server.dialects.pieces import call_deltas, calls_body, finish_reason
from harness.reference.server.errors import RequestError
from harness.reference.server.reply import Choice, Envelope
from harness.reference.server.rules import Rules, ZeroTokens
from harness.reference.server.view import EngineView
from harness.reference.tokenizer import Tokenizer

BUILD = "b11434-embedded"
TOO_LONG = "exceed_context_size_error"


class LlamaDialect:
    """As llama-server b11434 writes: usage and timings always, of the first choice alone."""

    rules = Rules(
        checks_model=False,
        max_logprobs=None,
        zero_tokens=ZeroTokens.ONE,
        zero_tokens_chat=ZeroTokens.ONE,
        scores_read_cache=True,
        clips_length=True,
        default_tokens=None,
        default_temperature=0.8,
        checks_temperature=False,
        named_tools=False,
        unknown_tool=None,
        knows_salt=False,
        cache_field="cache_prompt",
        scores_prompts=False,
        flags=("timings_per_token",),
    )

    def __init__(self, options: EngineOptions, tokenizer: Tokenizer) -> None:
        self.options = options
        self.tokenizer = tokenizer

    def reply_id(self, route_prefix: str, request_id: str) -> str:
        """``chatcmpl-`` and the request's id, for completions too."""
        return f"chatcmpl-{request_id}"

    def models(self, created_s: int) -> Json:
        """One model; its context is in ``meta``."""
        name, length = self.options.model_name, self.options.max_model_len
        meta = {"vocab_type": 2, "n_vocab": self.tokenizer.vocab_size, "n_ctx": length, "n_ctx_train": length}
        model = {"id": name, "aliases": [name], "object": "model", "created": created_s, "owned_by": "llamacpp"}
        known = {"name": name, "model": name, "type": "model", "capabilities": ["completion"]}
        return {"models": [known], "object": "list", "data": [{**model, "meta": meta}]}

    def whole(self, envelope: Envelope, choices: list[Choice]) -> object:
        """A completion or a chat answer."""
        chat = envelope.ask.route is Route.CHAT
        return {
            "choices": [self._chat_choice(choice) if chat else self._text_choice(choice) for choice in choices],
            **self._tail(envelope, "chat.completion" if chat else "text_completion"),
            "usage": self._usage(choices[0]),
            "timings": self._timings(choices[0]),
        }

    def events(self, envelope: Envelope, choice: Choice) -> list[Json]:
        """One event a piece of text; the finish reason comes in an event of its own."""
        if envelope.ask.route is Route.CHAT:
            return self._chat_events(envelope, choice)
        return self._text_events(envelope, choice)

    def last_events(self, envelope: Envelope, choices: list[Choice]) -> list[Json]:
        """For chats the usage event, if asked for; completions have had their usage with the finish reason."""
        if envelope.ask.route is not Route.CHAT or not envelope.ask.include_usage:
            return []
        first = choices[0]
        tail = self._tail(envelope, "chat.completion.chunk")
        return [{"choices": [], **tail, "usage": self._usage(first), "timings": self._timings(first)}]

    def error(self, error: RequestError) -> Json:
        """``{"error": {code, message, type}}``; a context overflow also says how many tokens and how many fit."""
        kinds = {"BadRequestError": "invalid_request_error", "Bad Request": "invalid_request_error"}
        kind = kinds.get(error.kind, "server_error" if error.kind == "InternalServerError" else error.kind)
        body: Json = {"code": error.status, "message": error.message, "type": kind}
        if kind == TOO_LONG:
            body |= {"n_prompt_tokens": error.value, "n_ctx": self.options.max_model_len}
        return {"error": body}

    def stream_error(self, error: RequestError) -> Json:
        """The same object as an event."""
        return self.error(error)

    def closes_after_error(self) -> bool:
        """The stream just ends."""
        return False

    def queue_full(self) -> RequestError:
        """503."""
        return RequestError("no room to wait", status=503, kind="unavailable_error")

    def refuses_in_stream(self) -> bool:
        """The status comes before anything else."""
        return False

    def no_route(self, status: int, reason: str) -> Json:
        """``File Not Found`` for every unknown path and method."""
        return {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}

    def too_long(self, prompt_tokens: int, answer_tokens: int | None) -> RequestError:
        """A prompt that fills the context; an answer is cut instead."""
        text = (
            f"request ({prompt_tokens} tokens) exceeds the available context size ({self.options.max_model_len} "
            "tokens), try increasing it"
        )
        return RequestError(text, kind=TOO_LONG, value=prompt_tokens)

    def metrics(self, views: Sequence[EngineView]) -> list[Metric]:
        """llama.cpp's metric names."""
        return llamacpp_metrics.families(views)

    def _tail(self, envelope: Envelope, kind: str) -> Json:
        return {
            "created": envelope.created_s,
            "model": envelope.ask.model,
            "system_fingerprint": BUILD,
            "object": kind,
            "id": envelope.reply_id,
        }

    def _usage(self, choice: Choice) -> Json:
        usage = choice.usage
        assert usage is not None
        return {
            "completion_tokens": len(choice.tokens),
            "prompt_tokens": usage.prompt_tokens,
            "total_tokens": usage.prompt_tokens + len(choice.tokens),
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        }

    def _timings(self, choice: Choice) -> Json:
        """Milliseconds and rates of the prompt and the answer; draft counts when drafting."""
        usage, delta = choice.usage, choice.newest
        assert usage is not None and delta is not None
        timing, done = delta.timing, len(choice.tokens)
        computed = usage.prompt_tokens - usage.cached_tokens
        began_ns = timing.first_token_ns or timing.finished_ns  # an aborted request may have no first token
        prompt_ms = max((began_ns - timing.scheduled_ns) / 1e6, 1e-3)
        answer_ms = max(((timing.finished_ns or began_ns) - began_ns) / 1e6, 1e-3)
        timings: Json = {
            "cache_n": usage.cached_tokens,
            "prompt_n": computed,
            "prompt_ms": prompt_ms,
            "prompt_per_token_ms": prompt_ms / computed,
            "prompt_per_second": computed / prompt_ms * 1e3,
            "predicted_n": done,
            "predicted_ms": answer_ms,
            "predicted_per_token_ms": answer_ms / done if done else 0.0,
            "predicted_per_second": done / answer_ms * 1e3,
        }
        drafted = {"draft_n": usage.speculation.drafted, "draft_n_accepted": usage.speculation.accepted}
        return {**timings, **drafted} if usage.speculation.drafted else timings

    def _text_choice(self, choice: Choice) -> Json:
        return {
            "text": choice.text,
            "index": choice.index,
            "logprobs": self._logprobs(choice.logprobs),
            "finish_reason": finish_reason(choice),
        }

    def _chat_choice(self, choice: Choice) -> Json:
        message: Json = {"role": "assistant", "content": choice.content or (None if choice.calls else "")}
        if choice.reasoning:
            message["reasoning_content"] = choice.reasoning
        if choice.calls:
            message["tool_calls"] = calls_body(choice)
        body: Json = {"finish_reason": finish_reason(choice), "index": choice.index, "message": message}
        logprobs = self._logprobs(choice.logprobs)
        return body if logprobs is None else {**body, "logprobs": logprobs}

    def _text_events(self, envelope: Envelope, choice: Choice) -> list[Json]:
        tail = self._tail(envelope, "text_completion")
        events: list[Json] = []
        for piece, logprobs in self._pieces(choice):
            body: Json = {"text": piece, "index": choice.index, "logprobs": logprobs, "finish_reason": None}
            events.append({"choices": [body], **tail, **self._each(envelope, choice)})
        if choice.finish is not None:
            end: Json = {"text": "", "index": choice.index, "logprobs": None, "finish_reason": finish_reason(choice)}
            counts = {"usage": self._usage(choice), "timings": self._timings(choice)}
            events.append({"choices": [end], **tail, **counts})
        return events

    def _chat_events(self, envelope: Envelope, choice: Choice) -> list[Json]:
        tail = self._tail(envelope, "chat.completion.chunk")
        events: list[Json] = []
        for delta, logprobs in self._chat_deltas(choice):
            body: Json = {"finish_reason": None, "index": choice.index, "delta": delta}
            shown = body if logprobs is None else {**body, "logprobs": logprobs}
            events.append({"choices": [shown], **tail, **self._each(envelope, choice)})
        if choice.finish is not None:
            end: Json = {"finish_reason": finish_reason(choice), "index": choice.index, "delta": {}}
            timings = {} if envelope.ask.include_usage else {"timings": self._timings(choice)}
            events.append({"choices": [end], **tail, **timings})
        return events

    def _chat_deltas(self, choice: Choice) -> list[tuple[Json, Json | None]]:
        """The role, then text by section; plain text comes one piece at a time, each with its own logprobs."""
        fresh = choice.fresh
        deltas: list[tuple[Json, Json | None]] = []
        if choice.events == 1:
            deltas.append(({"role": "assistant", "content": None}, None))
        pieces = self._pieces(choice)
        if "".join(piece for piece, _ in pieces) == fresh.content:
            return deltas + [({"content": piece}, logprobs) for piece, logprobs in pieces]
        if fresh.reasoning:
            deltas.append(({"reasoning_content": fresh.reasoning}, None))
        if fresh.content:
            deltas.append(({"content": fresh.content}, None))
        return deltas + [({"tool_calls": [call]}, None) for call in call_deltas(choice)]

    def _pieces(self, choice: Choice) -> list[tuple[str, Json | None]]:
        """The newest delta token by token; tokens that complete no character are left out, logprobs and all."""
        delta = choice.newest
        assert delta is not None
        rows = [self._logprobs([item]) for item in delta.logprobs] or [None] * len(delta.pieces)
        return [(piece, row) for piece, row in zip(delta.pieces, rows, strict=True) if piece]

    def _each(self, envelope: Envelope, choice: Choice) -> Json:
        """What ``timings_per_token`` adds to every event."""
        return {"timings": self._timings(choice)} if "timings_per_token" in envelope.ask.flags else {}

    def _logprobs(self, entries: Sequence[TokenLogprob]) -> Json | None:
        """The chat shape, with ids; while drafting the alternatives are missing, as they are from llama-server."""
        if not entries:
            return None
        if self.options.speculative_tokens:
            entries = [replace(item, top=()) for item in entries]
        return shapes.chat_shape(self.tokenizer, entries, with_ids=True)
