"""vLLM's replies, errors and fields."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client.metrics_core import Metric

from harness.reference.options import EngineOptions
from harness.reference.scheduler.request import SpeculationCounts
from harness.reference.server import logprobs as shapes
from harness.reference.server.ask import Route
from harness.reference.server.dialects import vllm_metrics
from harness.reference.server.dialects.base import Json
from harness.reference.server.dialects.pieces import call_deltas, calls_body, finish_reason
from harness.reference.server.errors import RequestError
from harness.reference.server.reply import Choice, Envelope, speculation, totals
from harness.reference.server.rules import Rules, ZeroTokens
from harness.reference.server.view import EngineView
from harness.reference.tokenizer import Tokenizer

FINGERPRINT = "vllm-0.33.0-embedded"
VERSION = "0.33.0"


class VllmDialect:
    """As vLLM 0.33 writes; cached tokens come with ``--enable-prompt-tokens-details`` there."""

    rules = Rules(
        checks_model=True,
        max_logprobs=20,
        zero_tokens=ZeroTokens.REFUSED,
        zero_tokens_chat=ZeroTokens.REFUSED,
        scores_read_cache=False,
        clips_length=False,
        default_tokens=16,
        default_temperature=1.0,
        checks_temperature=True,
        checks_salt=True,
        named_tools=True,
        unknown_tool="The tool specified in `tool_choice` does not match any of the specified `tools`",
    )

    def __init__(self, options: EngineOptions, tokenizer: Tokenizer) -> None:
        self.options = options
        self.tokenizer = tokenizer

    def reply_id(self, route_prefix: str, request_id: str) -> str:
        """``cmpl-`` or ``chatcmpl-`` and the request's id."""
        return f"{route_prefix}-{request_id}"

    def models(self, created_s: int) -> Json:
        """One model, with its context length."""
        model = {
            "id": self.options.model_name,
            "object": "model",
            "created": created_s,
            "owned_by": "vllm",
            "root": self.options.model_name,
            "parent": None,
            "max_model_len": self.options.max_model_len,
            "permission": [],
        }
        return {"object": "list", "data": [model]}

    def whole(self, envelope: Envelope, choices: list[Choice]) -> object:
        """A completion or a chat answer."""
        return self._chat(envelope, choices) if _is_chat(envelope) else self._completion(envelope, choices)

    def events(self, envelope: Envelope, choice: Choice) -> list[Json]:
        """One event a delta, the last of them with the finish reason; in a chat the role comes first."""
        return self._chat_events(envelope, choice) if _is_chat(envelope) else [self._completion_event(envelope, choice)]

    def _completion(self, envelope: Envelope, choices: list[Choice]) -> Json:
        return {
            **self._head(envelope, "text_completion"),
            "choices": [self._completion_choice(envelope, choice) for choice in choices],
            **self._tail(envelope, choices),
            "kv_transfer_params": None,
            "metrics": self._speculation(choices),
        }

    def _chat(self, envelope: Envelope, choices: list[Choice]) -> Json:
        prompt_logprobs = choices[0].prompt_logprobs
        ids = list(choices[0].prompt) if envelope.ask.return_token_ids else None
        return {
            **self._head(envelope, "chat.completion"),
            "choices": [self._chat_choice(envelope, choice) for choice in choices],
            **self._tail(envelope, choices),
            "prompt_logprobs": shapes.vllm_prompt_shape(self.tokenizer, prompt_logprobs) if prompt_logprobs else None,
            "prompt_token_ids": ids,
            "kv_transfer_params": None,
            "metrics": self._speculation(choices),
        }

    def _completion_event(self, envelope: Envelope, choice: Choice) -> Json:
        ask, delta = envelope.ask, choice.newest
        assert delta is not None
        first = choice.events == 1
        body: Json = {
            "index": choice.index,
            "text": self.tokenizer.decode(choice.prompt) + delta.text if ask.echo and first else delta.text,
            "logprobs": self._legacy(envelope, choice, first=first, streamed=True),
            "finish_reason": finish_reason(choice),
            "stop_reason": self._stop_reason(choice),
            "prompt_token_ids": list(choice.prompt) if ask.return_token_ids and first else None,
            "token_ids": list(delta.tokens) if ask.return_token_ids else None,
        }
        return {**self._head(envelope, "text_completion"), "choices": [body], **self._running_usage(envelope, choice)}

    def _chat_events(self, envelope: Envelope, choice: Choice) -> list[Json]:
        ask, delta = envelope.ask, choice.newest
        assert delta is not None
        head = self._head(envelope, "chat.completion.chunk")
        events: list[Json] = []
        if choice.events == 1:
            role: Json = {"index": choice.index, "delta": {"role": "assistant", "content": ""}, "logprobs": None}
            ids = list(choice.prompt) if ask.return_token_ids else None
            events.append({**head, "choices": [{**role, "finish_reason": None}], "prompt_token_ids": ids})
        body: Json = {
            "index": choice.index,
            "delta": self._delta(choice),
            "logprobs": shapes.chat_shape(self.tokenizer, delta.logprobs) if delta.logprobs else None,
            "finish_reason": finish_reason(choice),
        }
        if choice.finish is not None:
            body["stop_reason"] = self._stop_reason(choice)
        body["token_ids"] = list(delta.tokens) if ask.return_token_ids else None
        events.append({**head, "choices": [body], **self._running_usage(envelope, choice)})
        return events

    def _delta(self, choice: Choice) -> Json:
        """What the newest delta adds; content may be empty, the other fields come only with something in them."""
        fresh, calls = choice.fresh, call_deltas(choice)
        delta: Json = {}
        if fresh.reasoning:
            delta["reasoning"] = fresh.reasoning
        if fresh.content or not (fresh.reasoning or calls):
            delta["content"] = fresh.content
        if calls:
            delta["tool_calls"] = calls
        return delta

    def last_events(self, envelope: Envelope, choices: list[Choice]) -> list[Json]:
        """The usage event, if asked for."""
        if not envelope.ask.include_usage:
            return []
        kind = "chat.completion.chunk" if _is_chat(envelope) else "text_completion"
        event: Json = {**self._head(envelope, kind), "choices": [], **self._tail(envelope, choices, streamed=True)}
        metrics = self._speculation(choices)
        return [event if metrics is None else {**event, "metrics": metrics}]

    def error(self, error: RequestError) -> Json:
        """``{"error": {message, type, param, code}}``; the parameter is repeated in the message."""
        message = error.message
        if error.param is not None and error.status == 400 and error.kind == "BadRequestError":
            value = f", value={error.value}" if error.value is not None else ""
            message += f" (parameter={error.param}{value})"
        return {"error": {"message": message, "type": error.kind, "param": error.param, "code": error.status}}

    def stream_error(self, error: RequestError) -> Json:
        """The same object as an event."""
        return self.error(error)

    def closes_after_error(self) -> bool:
        """It does."""
        return True

    def queue_full(self) -> RequestError:
        """503."""
        return RequestError(
            "The engine is currently busy and cannot take more requests.", status=503, kind="ServiceUnavailableError"
        )

    def refuses_in_stream(self) -> bool:
        """The status comes before anything else."""
        return False

    def no_route(self, status: int, reason: str) -> Json:
        """FastAPI's ``{"detail": reason}``."""
        return {"detail": reason}

    def too_long(self, prompt_tokens: int, answer_tokens: int | None) -> RequestError:
        """vLLM names the prompt when it alone is too long, ``max_tokens`` when that is, else both."""
        limit = self.options.max_model_len
        if answer_tokens is not None and answer_tokens > limit:
            text = f"max_tokens={answer_tokens} cannot be greater than max_model_len={limit}. "
            return RequestError(text + "Please request fewer output tokens.", param="max_tokens", value=answer_tokens)
        start = f"This model's maximum context length is {limit} tokens. However, "
        if prompt_tokens >= limit or answer_tokens is None:
            text = (
                f"your prompt contains at least {prompt_tokens} input tokens, which exceeds this limit even without "
                "any output tokens. Please reduce the length of the input prompt."
            )
            return RequestError(start + text, param="input_tokens", value=prompt_tokens)
        text = (
            f"you requested {answer_tokens} output tokens and your prompt contains {prompt_tokens} input tokens, for a "
            f"total of {prompt_tokens + answer_tokens} tokens. Please reduce the length of the input prompt or the "
            "number of requested output tokens."
        )
        return RequestError(start + text, param="input_tokens", value=prompt_tokens)

    def metrics(self, views: Sequence[EngineView]) -> list[Metric]:
        """vLLM's metric names."""
        return vllm_metrics.families(views)

    def _head(self, envelope: Envelope, kind: str) -> Json:
        return {
            "id": envelope.reply_id,
            "object": kind,
            "created": envelope.created_s,
            "model": self.options.model_name,
        }

    def _tail(self, envelope: Envelope, choices: list[Choice], *, streamed: bool = False) -> Json:
        return {
            "system_fingerprint": FINGERPRINT,
            "usage": self._usage(envelope, choices, streamed=streamed),
        }

    def _usage(self, envelope: Envelope, choices: list[Choice], *, streamed: bool) -> Json:
        counts = totals(envelope.ask, choices)
        details: Json | None = None
        if not self.options.no_cache_report:
            created = counts.created_tokens if _is_chat(envelope) else None
            known = {"cached_tokens": counts.cached_tokens, "created_cache_tokens": created, "multimodal_tokens": None}
            details = {name: value for name, value in known.items() if value is not None or not streamed}
        usage: Json = {
            "prompt_tokens": counts.prompt_tokens,
            "total_tokens": counts.total_tokens,
            "completion_tokens": counts.completion_tokens,
        }
        if details is not None or not streamed:
            usage["prompt_tokens_details"] = details
        if envelope.ask.thinking:
            usage["completion_tokens_details"] = {"reasoning_tokens": counts.reasoning_tokens}
        return usage

    def _running_usage(self, envelope: Envelope, choice: Choice) -> Json:
        if not (envelope.ask.include_usage and envelope.ask.continuous_usage):
            return {}
        prompt, done = len(choice.prompt), len(choice.tokens)
        return {"usage": {"prompt_tokens": prompt, "total_tokens": prompt + done, "completion_tokens": done}}

    def _completion_choice(self, envelope: Envelope, choice: Choice) -> Json:
        ask = envelope.ask
        echoed = self.tokenizer.decode(choice.prompt) if ask.echo else ""
        prompt_logprobs = choice.prompt_logprobs
        return {
            "index": choice.index,
            "text": echoed + choice.text,
            "logprobs": self._legacy(envelope, choice, first=True, streamed=False),
            "finish_reason": finish_reason(choice),
            "stop_reason": self._stop_reason(choice),
            "token_ids": list(choice.tokens) if ask.return_token_ids else None,
            "prompt_logprobs": shapes.vllm_prompt_shape(self.tokenizer, prompt_logprobs) if prompt_logprobs else None,
            "prompt_token_ids": list(choice.prompt) if ask.return_token_ids else None,
        }

    def _chat_choice(self, envelope: Envelope, choice: Choice) -> Json:
        message: Json = {
            "role": "assistant",
            "content": choice.content if choice.content or not (choice.reasoning or choice.calls) else None,
            "refusal": None,
            "reasoning": choice.reasoning or None,
        }
        if choice.calls:
            message["tool_calls"] = calls_body(choice)
        return {
            "index": choice.index,
            "message": message,
            "logprobs": shapes.chat_shape(self.tokenizer, choice.logprobs) if choice.logprobs else None,
            "finish_reason": finish_reason(choice),
            "stop_reason": self._stop_reason(choice),
            "token_ids": list(choice.tokens) if envelope.ask.return_token_ids else None,
        }

    def _legacy(self, envelope: Envelope, choice: Choice, *, first: bool, streamed: bool) -> Json | None:
        """Logprobs of a completion's newest delta (streamed) or of all of it, the echoed prompt's before them."""
        ask = envelope.ask
        if ask.sampling.logprobs is None:
            return None
        delta = choice.newest
        assert delta is not None
        entries = list(delta.logprobs if streamed else choice.logprobs)
        tokens = list(delta.tokens if streamed else choice.tokens)
        offset = choice.sent_chars if streamed else 0
        if ask.echo:
            offset += 0 if first else len(self.tokenizer.decode(choice.prompt))
            if first and choice.prompt_logprobs is not None:
                return shapes.legacy_shape(
                    self.tokenizer, [*choice.prompt_logprobs, *entries], offset, [*choice.prompt, *tokens]
                )
        return shapes.legacy_shape(self.tokenizer, entries, offset, tokens)

    def _stop_reason(self, choice: Choice) -> str | int | None:
        return choice.finish.matched if choice.finish is not None else None

    def _speculation(self, choices: list[Choice]) -> Json | None:
        """``metrics.speculative_decoding``, for a single answer of an engine that drafts."""
        counts = speculation(choices)
        if counts is None or not self.options.speculative_tokens:
            return None
        return {"speculative_decoding": _speculation_body(counts, self.options.speculative_tokens)}


def _is_chat(envelope: Envelope) -> bool:
    return envelope.ask.route is Route.CHAT


def _speculation_body(counts: SpeculationCounts, depth: int) -> Json:
    """The fields of ``--per-request-spec-decode-metrics summary``; rates are null before the first step."""
    histogram = [*counts.histogram, *[0] * (depth + 1 - len(counts.histogram))]
    return {
        "mean_acceptance_length": 1 + counts.accepted / counts.steps if counts.steps else None,
        "draft_acceptance_rate": counts.accepted / counts.drafted if counts.drafted else None,
        "acceptance_histogram": histogram,
        "num_spec_steps": counts.steps,
        "num_accepted_draft_tokens": counts.accepted,
        "num_draft_tokens": counts.drafted,
        "num_spec_tokens": depth,
    }
