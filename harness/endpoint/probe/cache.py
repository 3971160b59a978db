"""The cache: what is reported of it, how a request is kept from it, how many there are, how it is emptied."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from harness.clock import NS_PER_MS, NS_PER_S
from harness.endpoint.cache_control import flush
from harness.endpoint.dialects.base import PROMPT_LOGPROBS
from harness.endpoint.probe.prober import Prober, Seen, is_json_object
from harness.endpoint.probe.result import Capability
from harness.endpoint.probe.running import sampled, until_running
from harness.records import RequestError
from workloads.plan import Json, TextPrompt

SIGHTINGS = 5
LONG_TOKENS = 2100
SHORT_BLOCK_TOKENS = 640
SCORED_TOKENS = 1100
BUSY_TOKENS = 256
# How long a request may take to be seen running, and the wait where that cannot be seen.
SEEN_NS = NS_PER_S
UNSEEN_NS = 200 * NS_PER_MS
_TIER_HOMES = ("sglext",)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRound:
    """The same prompt sent again and again: plain, salted, bypassing, and asking the prompt's log-probabilities.

    hits: cached tokens of the plain repeats after the first, None each where not reported.
    """

    prompt: TextPrompt
    tokens: int
    plain: tuple[Seen, ...]
    streamed: tuple[bool, ...]

    @property
    def hits(self) -> tuple[int | None, ...]:
        return tuple(seen.cached for seen in self.plain[1:])

    @property
    def hit(self) -> int | None:
        """The deepest hit; None if no repeat hit or none is reported."""
        return max((count for count in self.hits if count), default=None)


def long_tokens(prober: Prober) -> int:
    """Tokens of a prompt long enough to hit: a hybrid model's blocks can be near 2,000 tokens."""
    block = prober.settings.block_tokens
    wanted = LONG_TOKENS if block is None else max(SHORT_BLOCK_TOKENS, 2 * block + 200)
    return wanted if prober.max_model_len is None else min(wanted, prober.max_model_len // 2)


async def look_at_cache(prober: Prober, chars_per_token: float) -> dict[str, Capability]:
    """Everything about the cache that disturbs nobody, and flushing where the server is ours alone."""
    found = await _sightings(prober, chars_per_token)
    salted = await _salted(prober, found)
    bypassed = await _bypassed(prober, found)
    scored, unread = await _scored(prober, found)
    return {
        "cached_tokens_whole": _reported(prober, found, streamed=False),
        "cached_tokens_stream": _reported(prober, found, streamed=True),
        "cached_tokens_by_tier": _by_tier(prober, found),
        "salt": salted,
        "cache_bypass": bypassed,
        "prompt_logprobs": scored,
        "prompt_logprobs_bypass_cache": unread,
        "cache_domains": count_domains(prober, found),
        **await _flushing(prober, found),
    }


async def _sightings(prober: Prober, chars_per_token: float) -> CacheRound:
    tokens = long_tokens(prober)
    prompt = prober.text("cache", round(tokens * chars_per_token))
    plain, streamed = [], []
    for index in range(SIGHTINGS):
        stream = index in (1, 2)
        fields = prober.dialect.tier_fields if index == 2 else {}
        plain.append(await prober.ask(f"sighting-{index}", prompt, max_tokens=1, stream=stream, fields=fields))
        streamed.append(stream)
    return CacheRound(prompt=prompt, tokens=tokens, plain=tuple(plain), streamed=tuple(streamed))


def _reported(prober: Prober, found: CacheRound, *, streamed: bool) -> Capability:
    name = "cached_tokens_stream" if streamed else "cached_tokens_whole"
    of_kind = [seen for seen, how in zip(found.plain, found.streamed, strict=True) if how is streamed]
    if not any(seen.ok for seen in of_kind):
        return of_kind[0].refused(prober.enabled_by(name))
    best = max((seen.cached for seen in of_kind if seen.cached is not None), default=None)
    if best is None:
        return prober.verdict(name, False, "usage.prompt_tokens_details.cached_tokens is not there")
    prompt_tokens = next((seen.prompt_tokens for seen in of_kind if seen.prompt_tokens is not None), None)
    said = f"usage.prompt_tokens_details.cached_tokens: {best} of {prompt_tokens} on a repeat"
    if best == 0:
        said += "; reported, but no repeat hit: is prefix caching on, and a block shorter than that?"
    return prober.verdict(name, True, said)


def _by_tier(prober: Prober, found: CacheRound) -> Capability:
    name, seen = "cached_tokens_by_tier", found.plain[2]
    if not seen.ok:
        return seen.refused(prober.enabled_by(name))
    for home in _TIER_HOMES:
        under = seen.reading.extra.get(home)
        tiers: Json = under.get("cached_tokens_details") if isinstance(under, Mapping) else None
        if is_json_object(tiers) and isinstance(tiers, Mapping):
            told = ", ".join(f"{tier} {count}" for tier, count in tiers.items())
            return prober.verdict(name, True, f"{home}.cached_tokens_details: {told}")
    if not seen.cached:
        return prober.verdict(name, None if prober.dialect.tier_fields else False, "nothing cached was seen to tell of")
    return prober.verdict(name, False, "the answer does not say which tier its cached tokens came from")


async def _salted(prober: Prober, found: CacheRound) -> Capability:
    """A fresh salt must miss where the plain prompt hits before and after."""
    field = prober.dialect.salt_field if prober.dialect.salt_field is not None else "cache_salt"
    return await _kept_apart(prober, found, "salt", {field: prober.nonce * 2})


async def _bypassed(prober: Prober, found: CacheRound) -> Capability:
    if prober.dialect.forbids_unknown_fields:
        return prober.verdict("cache_bypass", False, "not sent: the server refuses body fields it does not know")
    fields = prober.dialect.bypass_fields if prober.dialect.bypass_fields else {"cache_prompt": False}
    return await _kept_apart(prober, found, "cache_bypass", fields)


async def _kept_apart(prober: Prober, found: CacheRound, name: str, fields: Mapping[str, Json]) -> Capability:
    asked = " ".join(fields)
    seen = await prober.ask(name, found.prompt, max_tokens=1, fields=fields)
    if not seen.ok:
        return seen.refused(prober.enabled_by(name))
    after = await prober.ask(f"{name}-after", found.prompt, max_tokens=1)
    if not found.hit or not after.cached:
        return prober.verdict(name, None, "no repeat of the plain prompt was seen to hit, so a miss says nothing")
    if seen.cached == 0:
        return prober.verdict(name, True, f"{asked}: 0 cached where the plain prompt hits {after.cached}")
    return prober.verdict(name, False, f"{asked} changes nothing: {seen.cached} cached")


async def _scored(prober: Prober, found: CacheRound) -> tuple[Capability, Capability]:
    """The prompt's log-probabilities, and whether asking for them left the warm cache unread."""
    scored, unread = "prompt_logprobs", "prompt_logprobs_bypass_cache"
    if not prober.completions:
        how = "not asked: there is no /v1/completions"
        return prober.verdict(scored, None, how), prober.verdict(unread, None, how)
    warm = prober.exclusive or found.tokens <= SCORED_TOKENS
    prompt = found.prompt if warm else prober.text("scored")
    ways = prober.dialect.prompt_logprobs
    if not ways and not prober.dialect.forbids_unknown_fields:
        ways = tuple(PROMPT_LOGPROBS)
    seen = None
    for way in ways:
        seen = await prober.ask(f"scored-{way}", prompt, max_tokens=1, fields=PROMPT_LOGPROBS[way], route="completions")
        if seen.ok and scored_positions(seen):
            how = f"{way}: {scored_positions(seen)} positions"
            return prober.verdict(scored, True, how), _unread(prober, found, seen, way, warm=warm)
    how = "not asked: the server refuses body fields it does not know"
    if seen is not None:
        how = f"{' and '.join(ways)} gave none" if seen.ok else f"the request failed: {seen.trouble}"
    return prober.verdict(scored, False, how), prober.verdict(unread, None, "there are none")


def _unread(prober: Prober, found: CacheRound, seen: Seen, way: str, *, warm: bool) -> Capability:
    name = "prompt_logprobs_bypass_cache"
    if not warm:
        why = f"not tried: {found.tokens} positions take much memory; --exclusive-server tries it"
        return prober.verdict(name, None, why)
    if not found.hit or seen.cached is None:
        return prober.verdict(name, None, "no repeat was seen to hit")
    return prober.verdict(name, seen.cached == 0, f"{way} on a warm prompt: {seen.cached} cached")


def scored_positions(seen: Seen) -> int:
    """Positions of the prompt that have a log-probability, the first one included; 0 without any."""
    listed = seen.reading.extra.get("prompt_logprobs")
    if isinstance(listed, list) and listed:
        return len(listed)
    logprobs, usage = seen.reading.logprobs, seen.reading.usage
    if logprobs is None or usage is None or usage.completion_tokens is None:
        return 0
    return max(0, len(logprobs) - usage.completion_tokens)


def count_domains(prober: Prober, found: CacheRound) -> Capability:
    """Separate caches behind one address: each has to miss once. A lower bound, from a few requests in a row."""
    name = "cache_domains"
    if found.hit is None:
        return prober.verdict(name, None, "no repeat was seen to hit")
    misses = sum(count == 0 for count in found.hits)
    workers = {seen.answer.headers.get("x-worker-instance-id") for seen in found.plain} - {None}
    domains = max(1 + misses, len(workers))
    said = f"{domains} seen: {len(found.hits) - misses} of {len(found.hits)} repeats hit"
    if misses == 1 and found.hits[0] == 0:
        said = "1 or 2 seen: the second request missed, as it does on a hybrid model that keeps the state only then"
    return prober.verdict(name, True, said)


async def _flushing(prober: Prober, found: CacheRound) -> dict[str, Capability]:
    if not prober.exclusive:
        how = "not tried: it empties the cache for everybody; --exclusive-server tries it"
        return {name: prober.verdict(name, None, how) for name in ("flush", "flush_while_busy")}
    busy = await _flush_while_busy(prober)
    warm = await _warmed(prober, found)
    flushed = await flush(prober.client, prober.dialect.name, prober.clock)
    after = await prober.ask("flush-after", found.prompt, max_tokens=1)
    return {"flush": judge_flush(prober, flushed.path, flushed.error, warm, after), "flush_while_busy": busy}


async def _warmed(prober: Prober, found: CacheRound) -> Seen:
    """The first repeat that hits, or the last of three: the flush before may have emptied the cache."""
    for index in range(3):
        seen = await prober.ask(f"flush-warm-{index}", found.prompt, max_tokens=1)
        if seen.cached:
            break
    return seen


def judge_flush(prober: Prober, path: str | None, error: RequestError | None, warm: Seen, after: Seen) -> Capability:
    """The server's word and the next count have to agree."""
    if error is not None:
        return prober.verdict("flush", False, f"{path}: {error.message[:160]}")
    if not warm.cached or after.cached is None:
        return prober.verdict("flush", None, f"{path} says it is done; no count shows whether it is")
    if after.cached > 0:
        return prober.verdict("flush", False, f"{path} says it is done, but the next request hit {after.cached}")
    return prober.verdict("flush", True, f"{path}: {warm.cached} cached before, 0 after")


async def _flush_while_busy(prober: Prober) -> Capability:
    """One flush while a long answer streams; whether it is refused, waits, or is done."""
    name = "flush_while_busy"
    recipe = prober.dialect.flush
    if recipe is None:
        return prober.verdict(name, None, "not tried: no route is known")
    before = await sampled(prober)
    room = BUSY_TOKENS if prober.max_model_len is None else max(8, min(BUSY_TOKENS, prober.max_model_len // 4))
    busy = asyncio.create_task(
        prober.ask("busy", prober.text("busy"), max_tokens=room, stream=True, fields={"ignore_eos": True})
    )
    if before is None:
        await prober.clock.sleep_until(prober.clock.now_ns() + UNSEEN_NS)
    else:
        await until_running(prober, before, more=True, limit_ns=SEEN_NS)
    began_ns, still = prober.clock.now_ns(), not busy.done()
    said = await recipe(prober.client)
    took_s = (prober.clock.now_ns() - began_ns) / NS_PER_S
    ran_on = not busy.done()
    answer = await busy
    if not still:
        return prober.verdict(name, None, "the answer had ended before it could be asked")
    fate = "went on" if ran_on and answer.ok else ("had ended by then" if answer.ok else f"failed: {answer.trouble}")
    if said.error is not None and said.error.http_status is None:
        return prober.verdict(name, None, f"{said.error.message[:120]}")
    if said.error is not None:
        return prober.verdict(name, False, f"refused: {said.error.message[:120]}; the running request {fate}")
    return prober.verdict(name, True, f"done after {took_s:.1f} s; the running request {fate}")
