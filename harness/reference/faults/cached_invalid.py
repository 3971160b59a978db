"""K32: counts that cannot be."""

from __future__ import annotations

from harness.reference.cache.prefix import Match
from harness.reference.faults.fault import Fault, FaultInfo, Mode
from harness.reference.faults.reported_cached import report_cached
from harness.reference.faults.usage_fields import change_stream, change_whole, details_of
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.sequence import Sequence
from harness.reference.server.ask import Route
from harness.reference.server.dialects.base import Dialect, Json
from harness.reference.server.reply import Envelope


class CachedInvalid(Fault):
    """Usage breaks one of its own rules."""

    info = FaultInfo(
        code="K32",
        name="CACHED_INVALID",
        modes=(
            Mode(name="negative", size="accounting", effect="cached tokens are -1", trigger="any miss"),
            Mode(
                name="over",
                size="accounting",
                effect="cached tokens are a block more than the prompt",
                trigger="any hit",
            ),
            Mode(
                name="page",
                size="accounting",
                effect="all N tokens are reported cached",
                trigger="a hit of a prompt of exactly m blocks",
            ),
            Mode(
                name="rounded",
                size="accounting",
                effect="cached tokens are the prompt rounded up to whole blocks",
                trigger="any hit",
            ),
            Mode(
                name="choices",
                size="accounting",
                effect="cached tokens are counted once for each answer",
                trigger="a hit with n above 1",
            ),
            Mode(
                name="reasoning",
                size="accounting",
                effect="reasoning tokens exceed the completion's",
                trigger="any chat answer",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides reporting."""
        size = engine.scheduler.limits.block_size

        def report(sequence: Sequence, _match: Match | None, before: int | None) -> int | None:
            wrong = self._wrong(sequence, size) if before is None else None
            return wrong if wrong is not None and self.dice.roll() else None

        if self.mode not in ("choices", "reasoning"):
            report_cached(engine, report)

    def _wrong(self, sequence: Sequence, size: int) -> int | None:
        """What is reported, None when the mode has nothing to spoil."""
        prompt, hit = sequence.prompt_tokens, bool(sequence.cached_tokens)
        if self.mode == "negative":
            return None if hit else -1
        if not hit or (self.mode == "page" and prompt % size):
            return None
        return prompt + size if self.mode == "over" else -(-prompt // size) * size

    def plant_dialect(self, dialect: Dialect) -> None:
        """Overrides writing usage, for ``choices`` and ``reasoning``."""
        if self.mode in ("choices", "reasoning"):
            change_whole(dialect, self._spoil)
            change_stream(dialect, self._spoil)

    def _spoil(self, usage: Json, envelope: Envelope) -> None:
        details, completion = details_of(usage), usage.get("completion_tokens")
        if self.mode == "reasoning":
            if envelope.ask.route is Route.CHAT and isinstance(completion, int) and self.dice.roll():
                usage["completion_tokens_details"] = {"reasoning_tokens": completion + 1}
            return
        cached = details.get("cached_tokens") if details is not None else None
        if details is not None and isinstance(cached, int) and cached and envelope.ask.n > 1 and self.dice.roll():
            details["cached_tokens"] = cached * envelope.ask.n
