"""What may be asked and what comes with an answer: log-probabilities, token ids, the tokenizer, drafts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.endpoint.discovery import tokenize
from harness.endpoint.errors import EndpointError
from harness.endpoint.probe.prober import Prober, Seen
from harness.endpoint.probe.result import Capability
from workloads.capabilities import logprob_fields
from workloads.plan import Json, TokenPrompt

MOST, FEWER = 20, 5
# Ids that every vocabulary has, for servers without a tokenizer route.
ANY_IDS = tuple(range(10, 42))
NO_DRAFTS = "the server does not draft"


async def look_at_forms(prober: Prober) -> dict[str, Capability]:
    """Log-probabilities twice (the second time shows whether answers repeat), ids, the tokenizer, native scoring."""
    first = await _logprobs(prober, MOST)
    again = await _logprobs(prober, MOST)
    fewer = first if first.ok else await _logprobs(prober, FEWER)
    text = prober.text("ids")
    ids = await tokenize(prober.client, text.text)
    as_ids = await _token_ids(prober, ids)
    return {
        "logprobs": _any_logprobs(prober, fewer),
        "top_logprobs_20": _top(prober, first),
        "logprobs_with_speculation": _while_drafting(prober, first, as_ids),
        "token_id_prompts": _takes_ids(prober, as_ids, ids),
        "token_ids_returned": _returns_ids(prober, as_ids),
        "tokenize": _tokenizes(prober, ids, len(text.text)),
        "native_scoring": await _scores(prober, ids),
        "speculation_per_request": _drafts(prober, as_ids),
        "deterministic": repeated(prober, first, again),
    }


async def _logprobs(prober: Prober, count: int) -> Seen:
    fields = logprob_fields(prober.route, count)
    return await prober.ask(f"logprobs-{count}", prober.text("logprobs"), fields=fields)


def alternatives(seen: Seen) -> tuple[int, ...]:
    """The alternatives of each position; empty without log-probabilities."""
    logprobs = seen.reading.logprobs
    return tuple(len(each.top) for each in logprobs) if logprobs is not None else ()


def _any_logprobs(prober: Prober, seen: Seen) -> Capability:
    if not seen.ok:
        return seen.refused(prober.enabled_by("logprobs"))
    found = alternatives(seen)
    if not found:
        return prober.verdict("logprobs", False, "asked for, and none came")
    tokens = seen.reading.output_tokens
    return prober.verdict("logprobs", True, f"{len(found)} positions for {tokens} tokens")


def _top(prober: Prober, seen: Seen) -> Capability:
    if not seen.ok:
        return seen.refused(prober.enabled_by("top_logprobs_20"))
    found = alternatives(seen)
    if not found:
        return prober.verdict("top_logprobs_20", False, "asked for, and none came")
    # In the legacy shape alternatives whose text is the same, such as parts of characters, fall into one.
    works = max(found) >= MOST and min(found) > 0
    return prober.verdict("top_logprobs_20", works, f"{min(found)} to {max(found)} alternatives for each token")


def speculates(prober: Prober, answers: Sequence[Seen]) -> bool | None:
    """Whether the server drafts, by its settings or by an answer that tells of drafts; None if neither says."""
    if any(seen.drafts is not None for seen in answers):
        return True
    if prober.settings.speculation is None:
        return None
    return prober.settings.speculation != "none"


def _while_drafting(prober: Prober, seen: Seen, as_ids: Seen) -> Capability:
    name = "logprobs_with_speculation"
    drafts = speculates(prober, (seen, as_ids))
    if not drafts:
        return prober.verdict(name, None, NO_DRAFTS if drafts is False else "no drafts were seen")
    if not seen.ok:
        return seen.refused(prober.enabled_by(name))
    logprobs = seen.reading.logprobs
    bare = sum(not each.top for each in logprobs) if logprobs is not None else None
    if bare is None:
        return prober.verdict(name, False, "none came")
    return prober.verdict(name, bare == 0, f"{bare} of {len(logprobs or ())} tokens came without alternatives")


async def _token_ids(prober: Prober, ids: tuple[int, ...] | None) -> Seen:
    """Ids as the prompt, and ids and drafts asked back."""
    fields: Mapping[str, Json] = {}
    if not prober.dialect.forbids_unknown_fields:
        fields = {**prober.dialect.token_id_fields, **prober.dialect.speculation_fields}
    prompt = TokenPrompt(token_ids=(ids if ids else ANY_IDS)[:32])
    return await prober.ask("token-ids", prompt, max_tokens=16, fields=fields, route="completions")


def _takes_ids(prober: Prober, seen: Seen, ids: tuple[int, ...] | None) -> Capability:
    """The server may put one token of its own before the ids."""
    name = "token_id_prompts"
    if not seen.ok:
        return seen.refused(prober.enabled_by(name))
    sent = len((ids if ids else ANY_IDS)[:32])
    counted = seen.prompt_tokens
    if counted is None:
        return prober.verdict(name, None, "answered, but the prompt's tokens are not counted")
    return prober.verdict(name, counted in (sent, sent + 1), f"{sent} ids sent, {counted} prompt tokens counted")


def _returns_ids(prober: Prober, seen: Seen) -> Capability:
    name = "token_ids_returned"
    if not seen.ok:
        return seen.refused(prober.enabled_by(name))
    ids = seen.reading.token_ids
    return prober.verdict(name, ids is not None, "none came" if ids is None else f"{len(ids)} ids of the answer")


def _tokenizes(prober: Prober, ids: tuple[int, ...] | None, chars: int) -> Capability:
    if ids is None:
        return prober.verdict("tokenize", False, "POST /tokenize gives no ids")
    return prober.verdict("tokenize", True, f"POST /tokenize: {len(ids)} ids for {chars} characters")


async def _scores(prober: Prober, ids: tuple[int, ...] | None) -> Capability:
    name = "native_scoring"
    path = prober.dialect.score_path
    if path is None:
        return prober.verdict(name, False, "the engine has no route of its own for it")
    body: Json = {
        "input_ids": list((ids if ids else ANY_IDS)[:16]),
        "sampling_params": {"max_new_tokens": 1, "temperature": 0},
        "return_logprob": True,
        "logprob_start_len": 0,
    }
    try:
        answer = await prober.client.post_json(path, body)
    except EndpointError as trouble:
        return prober.verdict(name, False, f"POST {path}: {str(trouble)[:120]}")
    meta = answer.get("meta_info") if isinstance(answer, dict) else None
    scored = meta.get("input_token_logprobs") if isinstance(meta, dict) else None
    if not isinstance(scored, list) or not scored:
        return prober.verdict(name, False, f"POST {path} answers without input_token_logprobs")
    return prober.verdict(name, True, f"POST {path}: {len(scored)} input_token_logprobs")


def _drafts(prober: Prober, seen: Seen) -> Capability:
    name = "speculation_per_request"
    if not seen.ok:
        return seen.refused(prober.enabled_by(name))
    if seen.drafts is not None:
        told = seen.drafts
        return prober.verdict(name, True, f"{told.accepted} accepted in {told.steps} steps of one answer")
    per_step = seen.reading.extra.get("avg_decoded_tokens_per_iter")
    if isinstance(per_step, int | float):
        return prober.verdict(name, True, f"avg_decoded_tokens_per_iter: {per_step}")
    drafts = speculates(prober, ())
    if drafts:
        return prober.verdict(name, False, "it drafts, and its answers do not say so")
    return prober.verdict(name, None, NO_DRAFTS if drafts is False else "no drafts were seen")


def repeated(prober: Prober, first: Seen, again: Seen) -> Capability:
    """The same greedy request twice: the same text, and by how much log-probabilities moved."""
    name = "deterministic"
    if not (first.ok and again.ok):
        return (again if first.ok else first).refused(prober.enabled_by(name))
    same = first.reading.text == again.reading.text
    pairs = zip(first.reading.logprobs or (), again.reading.logprobs or (), strict=False)
    moved = [abs(a.logprob - b.logprob) for a, b in pairs if a.logprob is not None and b.logprob is not None]
    by = f"; log-probabilities moved by at most {max(moved):.2g}" if moved and same else ""
    return prober.verdict(name, same, f"two greedy answers are {'the same' if same else 'different'}{by}")
