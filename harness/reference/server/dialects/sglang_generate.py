"""SGLang's native /generate: its request, its answer, and the meta_info that other routes can ask for too."""

from __future__ import annotations

from dataclasses import replace

from harness.reference.sampling import SamplingParams, TokenLogprob
from harness.reference.scheduler.request import FinishReason, PromptScore
from harness.reference.server import fields
from harness.reference.server.ask import Ask, Route
from harness.reference.server.dialects.base import Json
from harness.reference.server.errors import RequestError
from harness.reference.server.fields import Json as Body
from harness.reference.server.parsing import Parser
from harness.reference.server.reply import Choice, Envelope
from harness.reference.tokenizer import Tokenizer

DEFAULT_NEW_TOKENS = 128


def parse_generate(parser: Parser, body: Body) -> Ask:
    """A /generate body: ``text`` or ``input_ids``, ``sampling_params``, logprob switches.

    ``logprob_start_len`` is the first prompt position whose logprob is wanted; -1 wants those of the answer alone.

    Raises:
        RequestError: a field of the wrong type or out of range.
    """
    prompts = parser.prompts({"prompt": body["input_ids"] if body.get("input_ids") is not None else body.get("text")})
    wants = fields.boolean(body, "return_logprob", False)
    top = fields.integer(body, "top_logprobs_num", 0, least=0) if wants else None
    start = fields.integer(body, "logprob_start_len", -1)
    score = PromptScore(start=start, top=top or 0, reads_cache=True) if wants and start >= 0 else None
    if start >= min(map(len, prompts)):
        raise RequestError(f"logprob_start_len ({start}) must be less than the prompt length")
    params = fields.mapping(body, "sampling_params")
    flags = {"return_text_in_logprobs"} if fields.boolean(body, "return_text_in_logprobs", False) else set()
    return Ask(
        route=Route.GENERATE,
        model=parser.model_name,
        prompts=prompts,
        sampling=_sampling(parser, params, max(map(len, prompts)), top),
        n=fields.integer(params, "n", 1, least=1),
        stream=fields.boolean(body, "stream", False),
        score=score,
        cache_salt=fields.string(body, "cache_salt", "") + fields.string(body, "extra_key", ""),
        given_id=fields.string(body, parser.rules.id_field, ""),
        flags=frozenset({*flags, *({"batch"} if len(prompts) > 1 else set())}),
    )


def _sampling(parser: Parser, params: Body, prompt_tokens: int, top: int | None) -> SamplingParams:
    wanted = fields.integer(params, "max_new_tokens", DEFAULT_NEW_TOKENS, least=0)
    room = parser.max_model_len - prompt_tokens
    if room < 1 or ("max_new_tokens" in params and wanted > room):
        raise parser.too_long(prompt_tokens, wanted)
    common = {key: value for key, value in params.items() if key not in ("max_new_tokens", "sampling_seed")}
    seeded = {"seed": params["sampling_seed"]} if "sampling_seed" in params else {}
    sampling = parser.sampling({**common, **seeded, "max_tokens": 1}, Route.GENERATE, prompt_tokens, top)
    return replace(sampling, max_tokens=min(wanted, room))


def whole(tokenizer: Tokenizer, envelope: Envelope, choices: list[Choice]) -> object:
    """One answer as an object, several as a list."""
    bodies = [event(tokenizer, envelope, choice) for choice in choices]
    return bodies[0] if len(bodies) == 1 and "batch" not in envelope.ask.flags else bodies


def event(tokenizer: Tokenizer, envelope: Envelope, choice: Choice) -> Json:
    """The answer so far: text and logprobs are cumulative in every event."""
    body: Json = {
        "text": choice.text,
        "output_ids": list(choice.tokens),
        "meta_info": meta_info(tokenizer, envelope, choice),
    }
    return {**body, "index": choice.index} if envelope.ask.choices > 1 and envelope.ask.stream else body


def meta_info(tokenizer: Tokenizer, envelope: Envelope, choice: Choice) -> Json:
    """Counts, cache and drafting figures of one answer; speculation and latency come with its end."""
    usage, delta = choice.usage, choice.newest
    assert usage is not None and delta is not None
    info: Json = {
        "id": envelope.reply_id,
        "finish_reason": _finish(tokenizer, choice),
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": len(choice.tokens),
        "reasoning_tokens": choice.reasoning_tokens,
        "cached_tokens": usage.cached_tokens,
        "num_retractions": usage.preemptions,
        "weight_version": "default",
    }
    if usage.cached_tokens:
        info["cached_tokens_details"] = {
            "device": usage.cached_tokens - usage.host_tokens,
            "host": usage.host_tokens,
        }
    if choice.finish is not None:
        info["e2e_latency"] = (delta.timing.finished_ns - delta.timing.received_ns) / 1e9
        if usage.speculation.steps:
            info |= speculation(choice)
    return info | _logprobs(tokenizer, envelope, choice)


def speculation(choice: Choice) -> Json:
    """The ``spec_*`` figures: the length counts the token that the prefill produced; rates are null without steps."""
    assert choice.usage is not None
    counts = choice.usage.speculation
    return {
        "spec_accept_rate": counts.accepted / counts.drafted if counts.drafted else None,
        "spec_accept_length": len(choice.tokens) / counts.steps if counts.steps else None,
        "spec_verify_ct": counts.steps,
        "spec_num_correct_drafts": counts.accepted,
        "spec_num_proposed_drafts": counts.drafted,
        "spec_correct_drafts_histogram": list(counts.histogram),
    }


def matched_stop(tokenizer: Tokenizer, choice: Choice) -> str | int | None:
    """The stop string or token that ended an answer, EOS included; None for other ends."""
    if choice.finish is None or choice.finish.reason is not FinishReason.STOP:
        return None
    if choice.finish.matched is not None:
        return choice.finish.matched
    last = choice.tokens[-1]
    return last if last in tokenizer.eos_ids else None


def _finish(tokenizer: Tokenizer, choice: Choice) -> Json | None:
    if choice.finish is None:
        return None
    if choice.finish.reason is FinishReason.LENGTH:
        return {"type": "length", "length": len(choice.tokens)}
    if choice.finish.reason is FinishReason.STOP:
        return {"type": "stop", "matched": matched_stop(tokenizer, choice)}
    return {"type": "abort", "message": "Aborted"}


def _logprobs(tokenizer: Tokenizer, envelope: Envelope, choice: Choice) -> Json:
    """``input_`` and ``output_token_logprobs`` as ``[logprob, id, text or null]``, and alternatives if asked for."""
    ask = envelope.ask
    if ask.sampling.logprobs is None:
        return {}
    named = "return_text_in_logprobs" in ask.flags

    def entry(token: int, logprob: float | None) -> list[object]:
        return [logprob, token, tokenizer.token_text(token) if named else None]

    def alternatives(item: TokenLogprob | None) -> list[list[object]] | None:
        return None if item is None else [entry(token, value) for token, value in item.top]

    scored = choice.prompt_logprobs or ()
    start = ask.score.start if ask.score is not None else 0
    inputs = zip(choice.prompt[start:], scored, strict=False)
    info: Json = {
        "input_token_logprobs": [entry(token, None if item is None else item.logprob) for token, item in inputs],
        "output_token_logprobs": [entry(item.token, item.logprob) for item in choice.logprobs],
    }
    if ask.sampling.logprobs:
        info["input_top_logprobs"] = [alternatives(item) for item in scored]
        info["output_top_logprobs"] = [alternatives(item) for item in choice.logprobs]
    return info
