"""In which order things are asked: what is cheap and fatal first, what costs or hurts most last."""

from __future__ import annotations

from collections.abc import Iterable

from harness.checks.soundness import NAME as SOUNDNESS

PULSE = "heartbeat between phases"
ORDER = (
    "stream",
    "cached-tokens",
    "reasoning",
    "tools",
    "billing",
    "mtp",
    "spec-parity",
    "isolation",
    "parity",
    "eviction",
    "tiers",
    "recall",
    "context",
    "heartbeat",
)
LAST = ("overload",)
_OBJECTIVES = len(ORDER) + 100


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Checks in the order in which they are asked before the objectives, and those of LAST left out."""
    return tuple(sorted((name for name in names if name not in LAST), key=order_of))


def order_of(name: str) -> int:
    """The place of a row among those of one gravity: checks as they are asked, then the rest."""
    if name in ORDER:
        return ORDER.index(name)
    if name in LAST:
        return _OBJECTIVES + 1 + LAST.index(name)
    return _OBJECTIVES + {PULSE: 200, SOUNDNESS: 300}.get(name, 100 if name.startswith("require ") else 0)
