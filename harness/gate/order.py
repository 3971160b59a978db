"""In which order things are asked: what is cheap and fatal first, what costs or hurts most last.

What a request alone shows comes before what company shows: where hits are wrong alone, they are wrong in company too.
"""

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
    "eviction",
    "isolation",
    "parity",
    "tiers",
    "recall",
    "context",
    "heartbeat",
)
LAST = ("overload",)
# The pulse says that kept prompts are answered otherwise than before; this check says what is wrong with them.
EXPLAINS_THE_PULSE = "eviction"
ABOUT_DRAFTS = ("mtp", "spec-parity")
_OBJECTIVES = len(ORDER) + 100


def in_order(names: Iterable[str], *, drafts: bool = True) -> tuple[str, ...]:
    """Checks in the order in which they are asked before the objectives, and those of LAST left out.

    drafts: False for a server that was not seen to draft: what is about drafts then comes after the other checks, for
    whatever else is wrong with answers shows there too.
    """
    return tuple(sorted((name for name in names if name not in LAST), key=lambda name: order_of(name, drafts=drafts)))


def is_asked(name: str, stopped_by: str | None) -> bool:
    """Whether a phase is still asked under `--fail-fast`, where `stopped_by` has failed; None if nothing has."""
    return stopped_by is None or (stopped_by == PULSE and name == EXPLAINS_THE_PULSE)


def order_of(name: str, *, drafts: bool = True) -> int:
    """The place of a row among those of one gravity: checks as they are asked, then the rest."""
    if name in ORDER:
        return ORDER.index(name) + (len(ORDER) if name in ABOUT_DRAFTS and not drafts else 0)
    if name in LAST:
        return _OBJECTIVES + 1 + LAST.index(name)
    return _OBJECTIVES + {PULSE: 200, SOUNDNESS: 300}.get(name, 100 if name.startswith("require ") else 0)
