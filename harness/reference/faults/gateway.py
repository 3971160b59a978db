"""K35: a gateway between client and engine spoils the accounting."""

from __future__ import annotations

from harness.reference.faults.fault import Fault, FaultInfo, Mode
from harness.reference.faults.usage_fields import details_of
from harness.reference.server.dialects.base import Json


class Gateway(Fault):
    """Nothing is planted in the engine: a proxy in front of it changes the usage of every answer it passes on."""

    info = FaultInfo(
        code="K35",
        name="GATEWAY_ACCOUNTING",
        modes=(
            Mode(name="drop", size="accounting", effect="cached tokens are dropped", trigger="any answer"),
            Mode(name="double", size="accounting", effect="cached tokens are doubled", trigger="any hit"),
            Mode(
                name="cost",
                size="accounting",
                effect="cached tokens are billed once more as prompt tokens",
                trigger="any hit",
            ),
        ),
    )

    def spoil(self, usage: Json) -> None:
        """Changes one usage object in place."""
        details = details_of(usage)
        cached = details.get("cached_tokens") if details is not None else None
        if details is None or not isinstance(cached, int) or (self.mode != "drop" and not cached):
            return
        if not self.dice.roll():
            return
        if self.mode == "drop":
            del usage["prompt_tokens_details"]
        elif self.mode == "double":
            details["cached_tokens"] = 2 * cached
        else:
            for name in ("prompt_tokens", "total_tokens"):
                value = usage.get(name)
                usage[name] = value + cached if isinstance(value, int) else value
