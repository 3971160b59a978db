"""A whole probe: what a server says of itself, then each capability tried."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from harness.clock import Clock
from harness.endpoint.dialects import dialect_of
from harness.endpoint.discovery import Discovery, ServedModel, token_counter
from harness.endpoint.probe.behaviour import look_at_behaviour
from harness.endpoint.probe.cache import look_at_cache
from harness.endpoint.probe.forms import look_at_forms
from harness.endpoint.probe.passive import assembled, look_at_counters
from harness.endpoint.probe.prober import ProbePort, Prober, Seen
from harness.endpoint.probe.result import ProbeResult, Setting
from workloads.plan import Json
from workloads.text import paragraphs, seeded

_SAMPLE_CHARS = 1200
_PLAIN_CHARS_PER_TOKEN = 4.0


class NothingAnswered(Exception):
    """No request to the model was answered; the message has the server's own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions:
    """exclusive: the server is ours alone, so that its cache may be emptied. notes: settings the operator knows.

    extra_body: fields of every request.
    """

    exclusive: bool = False
    notes: Mapping[str, str] = field(default_factory=dict)
    extra_body: Mapping[str, Json] = field(default_factory=dict)


async def probe(
    client: ProbePort, clock: Clock, discovery: Discovery, model: ServedModel, options: ProbeOptions
) -> ProbeResult:
    """Try everything, with some twenty small requests one after the other.

    Raises NothingAnswered if the model cannot be asked at all.
    """
    dialect = dialect_of(discovery.engine)
    prober = Prober(
        client=client,
        clock=clock,
        dialect=dialect,
        settings=dialect.read_settings(discovery.details),
        nonce=secrets.token_hex(8),
        exclusive=options.exclusive,
        max_model_len=model.max_model_len,
        extra_body=options.extra_body,
    )
    await _settle_route(prober)
    ratio = await _chars_per_token(prober)
    found = {
        **await look_at_forms(prober),
        **await look_at_cache(prober, ratio),
        "counters": await look_at_counters(client, dialect),
        **await look_at_behaviour(prober),
    }
    result = assembled(discovery, model, found, options.notes, requests=len(prober.seen))
    return _with_drafts(result, prober)


def _with_drafts(result: ProbeResult, prober: Prober) -> ProbeResult:
    """Speculation as seen in answers, where the server does not tell of it."""
    told = prober.settings.speculation is not None
    if told or not any(seen.drafts is not None for seen in prober.seen):
        return result
    return replace(result, settings={**result.settings, "speculation": Setting(value="on", note="seen in answers")})


async def _settle_route(prober: Prober) -> None:
    """Completions where they work, else chats."""
    seen = await prober.ask("first", prober.text("first"))
    if seen.ok:
        return
    prober.completions, prober.route = False, "chat"
    chat = await prober.ask("first-chat", prober.text("first"))
    if not chat.ok:
        raise NothingAnswered(_words(seen, chat))


def _words(completions: Seen, chat: Seen) -> str:
    if completions.trouble == chat.trouble:
        return chat.trouble
    return f"/v1/completions: {completions.trouble}; /v1/chat/completions: {chat.trouble}"


async def _chars_per_token(prober: Prober) -> float:
    """By the server's own tokenizer; four without one."""
    count = await token_counter(prober.client)
    if count is None:
        return _PLAIN_CHARS_PER_TOKEN
    sample = paragraphs(seeded(prober.nonce, "ratio"), _SAMPLE_CHARS)
    tokens = await count(sample)
    return len(sample) / tokens if tokens > 0 else _PLAIN_CHARS_PER_TOKEN
