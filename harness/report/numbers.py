"""How numbers are shown to people."""

from __future__ import annotations

NOT_REPORTED = "-"


def number(value: float | None) -> str:
    """About three figures; a dash for None."""
    if value is None:
        return NOT_REPORTED
    size = abs(value)
    if size >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def percent(share: float | None) -> str:
    """A share as a percentage with one decimal; a dash for None."""
    return NOT_REPORTED if share is None else f"{100 * share:.1f}%"


def whole(value: float | None) -> str:
    """A count; a dash for None."""
    return NOT_REPORTED if value is None else f"{value:,.0f}"


def run_letter(index: int) -> str:
    """The short name of a run in a report over several: A, B, ... Z, A1, B1, ..."""
    letter = chr(ord("A") + index % 26)
    return letter if index < 26 else f"{letter}{index // 26}"
