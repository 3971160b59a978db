"""A cold start reached by emptying or flooding the server's cache, with a sentinel that proves it."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from harness.clock import Clock
from harness.endpoint.cache_control import clear_l3, flush
from harness.endpoint.dialects import dialect_of
from harness.endpoint.dialects.base import Flushed, Settings, whole_of
from harness.endpoint.probe.cache import long_tokens
from harness.endpoint.probe.prober import ProbePort, Prober
from harness.records import TargetInfo
from workloads.plan import Json, TextPrompt

ColdBy = Literal["flush", "flood"]
FLOOD_SHARE = 1.2
FLUSH_TRIES = 3
WARMING_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdOptions:
    """by: the server's own route, or distinct prompts until the old ones are gone. clear_l3: the tier behind, too."""

    by: ColdBy
    clear_l3: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdStart:
    """How a cold start was reached, as the cell keeps it.

    verified: the sentinel was cached before and is not now; None where cached tokens are not reported. trouble: why it
    was not reached, None if it was. steps: what was done and what the server said. tokens: prompt tokens it took.
    """

    by: ColdBy
    verified: bool | None
    cached_before: int | None
    cached_after: int | None
    steps: tuple[str, ...]
    requests: int
    tokens: int
    trouble: str | None = None

    def as_json(self) -> dict[str, Json]:
        return {name: getattr(self, name) for name in self.__slots__} | {"steps": list(self.steps)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FloodPlan:
    """prompts of `tokens` tokens each; sized_by: the figures that it was sized from."""

    prompts: int
    tokens: int
    sized_by: str


def plan_flood(settings: Settings, tokens: int) -> FloodPlan | None:
    """Enough distinct prompts to fill the cache's tokens and its state slots both, and a fifth more.

    None if the server tells neither. More tiers than the first are not sized: a flood does not reach what lies behind.
    """
    by_tokens = None if settings.cache_tokens is None else math.ceil(FLOOD_SHARE * settings.cache_tokens / tokens)
    by_slots = None if settings.state_slots is None else math.floor(FLOOD_SHARE * settings.state_slots) + 1
    known = [count for count in (by_tokens, by_slots) if count is not None]
    if not known:
        return None
    told = [
        *([f"{settings.cache_tokens:,} tokens"] if settings.cache_tokens is not None else []),
        *([f"{settings.state_slots:,} states"] if settings.state_slots is not None else []),
    ]
    return FloodPlan(prompts=max(known), tokens=tokens, sized_by=" and ".join(told))


@dataclass(slots=True, kw_only=True)
class _Attempt:
    """One cold start on its way."""

    prober: Prober
    options: ColdOptions
    engine: str | None
    sentinel: TextPrompt
    chars_per_token: float
    steps: list[str] = field(default_factory=list)
    before: int | None = None
    after: int | None = None

    async def warm(self) -> None:
        """The sentinel until it hits: what is not cached cannot be seen to go."""
        for _ in range(WARMING_TRIES):
            seen = await self.prober.ask("sentinel", self.sentinel, max_tokens=1)
            self.before = seen.cached
            if seen.cached:
                return

    async def look(self) -> bool:
        """Whether the sentinel is gone, or cannot be seen at all."""
        self.after = (await self.prober.ask("sentinel-after", self.sentinel, max_tokens=1)).cached
        return not self.after

    def note(self, what: str, found: Flushed) -> str | None:
        """Keep what the server said; its trouble, if it had any."""
        said = found.said[:120] if found.error is None else found.error.message[:160]
        self.steps.append(f"{what}: {found.path}: {said}")
        return None if found.error is None else said

    async def by_flush(self) -> str | None:
        """The tier behind first, then the cache, until the next count agrees; the trouble, None if there was none."""
        if self.options.clear_l3:
            trouble = self.note("clear L3", await clear_l3(self.prober.client, self.engine, self.prober.clock))
            if trouble is not None:
                return f"the tier behind could not be emptied: {trouble}"
        for _ in range(FLUSH_TRIES):
            trouble = self.note("flush", await flush(self.prober.client, self.engine, self.prober.clock))
            if trouble is not None:
                return f"the server did not empty its cache: {trouble}"
            if await self.look():
                return None
            await self.warm()
        return f"the server says that its cache is empty, but the sentinel hit {self.after} tokens"

    async def by_flood(self) -> str | None:
        """Distinct prompts by the server's capacity, half as many again if the sentinel is still there."""
        plan = plan_flood(self.prober.settings, long_tokens(self.prober))
        if plan is None:
            return "the server does not tell how much its cache holds; record it with --note cache_tokens=VALUE"
        asked = 0
        for more in (plan.prompts, math.ceil(plan.prompts / 2)):
            for _ in range(more):
                text = self.prober.text(f"flood-{asked}", round(plan.tokens * self.chars_per_token))
                await self.prober.ask("flood", text, max_tokens=1)
                asked += 1
            self.steps.append(f"flood: {more} prompts of about {plan.tokens} tokens, sized from {plan.sized_by}")
            if await self.look():
                return None
            await self.warm()
        return f"after {asked} prompts the sentinel still hits {self.after} tokens"


async def start_cold(
    client: ProbePort,
    clock: Clock,
    target: TargetInfo,
    options: ColdOptions,
    chars_per_token: float = 4.0,
    notes: Mapping[str, str] | None = None,
) -> ColdStart:
    """Reach a cold start and prove it; never raises for trouble of the server, which is in the result.

    notes: what the operator says where the server tells no capacity (cache_tokens, state_slots).
    """
    dialect = dialect_of(target.engine)
    prober = Prober(
        client=client,
        clock=clock,
        dialect=dialect,
        settings=_with_notes(dialect.read_settings(target.details), {} if notes is None else notes),
        nonce=secrets.token_hex(8),
        exclusive=True,
        max_model_len=target.max_model_len,
        route=client.target.endpoint_type,
    )
    attempt = _Attempt(
        prober=prober,
        options=options,
        engine=target.engine,
        sentinel=prober.text("sentinel", round(long_tokens(prober) * chars_per_token)),
        chars_per_token=chars_per_token,
    )
    await attempt.warm()
    trouble = await (attempt.by_flush() if options.by == "flush" else attempt.by_flood())
    seen = bool(attempt.before) and attempt.after is not None
    return ColdStart(
        by=options.by,
        verified=False if trouble is not None else (attempt.after == 0 if seen else None),
        cached_before=attempt.before,
        cached_after=attempt.after,
        steps=tuple(attempt.steps),
        requests=len(prober.seen),
        tokens=sum(each.prompt_tokens or 0 for each in prober.seen),
        trouble=trouble,
    )


def _with_notes(settings: Settings, notes: Mapping[str, str]) -> Settings:
    """Capacity figures by the operator's notes where the server is silent; what is no number is left out."""
    tokens, slots = whole_of(notes.get("cache_tokens")), whole_of(notes.get("state_slots"))
    return replace(
        settings,
        cache_tokens=tokens if settings.cache_tokens is None else settings.cache_tokens,
        state_slots=slots if settings.state_slots is None else settings.state_slots,
    )
