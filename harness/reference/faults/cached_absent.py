"""K30: a real hit is not reported."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import replace

from prometheus_client.metrics_core import Metric

from harness.reference.cache.prefix import Match
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.faults.reported_cached import report_cached
from harness.reference.faults.usage_fields import change_stream, change_whole, details_of
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.sequence import Sequence
from harness.reference.server.dialects.base import Dialect, Json
from harness.reference.server.reply import Envelope
from harness.reference.server.view import EngineView


class CachedAbsent(Fault):
    """Cached tokens are zero, null, absent, or missing from the metrics."""

    info = FaultInfo(
        code="K30",
        name="CACHED_ZERO_OR_ABSENT",
        modes=(
            Mode(name="zero", size="accounting", effect="usage says 0", trigger="any hit"),
            Mode(name="mtp", size="accounting", effect="usage says 0", trigger="any hit with speculative decoding on"),
            Mode(name="null", size="accounting", effect="usage has null instead of 0", trigger="any miss"),
            Mode(name="absent", size="accounting", effect="usage leaves the field out", trigger="any answer"),
            Mode(name="metric", size="accounting", effect="the counters of hits stay 0", trigger="any hit"),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides reporting, for ``zero`` and ``mtp``."""
        if self.mode == "zero" or (self.mode == "mtp" and engine.prefiller.drafter is not None):
            report_cached(engine, self._nothing)

    def _nothing(self, sequence: Sequence, _match: Match | None, before: int | None) -> int | None:
        return 0 if before is None and sequence.cached_tokens and self.dice.roll() else None

    def plant_dialect(self, dialect: Dialect) -> None:
        """Overrides writing usage, for ``null`` and ``absent``, or metrics."""
        if self.mode in ("null", "absent"):
            change_whole(dialect, self._leave_out)
            change_stream(dialect, self._leave_out)
        elif self.mode == "metric":
            metrics = dialect.metrics

            def metrics_without(views: Items[EngineView]) -> list[Metric]:
                return metrics([_uncounted(view) if self.dice.roll() else view for view in views])

            override(dialect, "metrics", metrics_without)

    def _leave_out(self, usage: Json, _envelope: Envelope) -> None:
        details = details_of(usage)
        if details is None:
            return
        if self.mode == "null" and details.get("cached_tokens") == 0 and self.dice.roll():
            usage["prompt_tokens_details"] = None
        elif self.mode == "absent" and self.dice.roll():
            del usage["prompt_tokens_details"]


def _uncounted(view: EngineView) -> EngineView:
    return replace(view, stats=replace(view.stats, cached_tokens=0, host_tokens=0))
