"""How much comes back: in all, by kind of needle, by depth, by length, and near the end of a hit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.checks.recall.facts import Row
from harness.stats.rates import rate_interval
from workloads.control import CONTROL
from workloads.haystack import NUMBER
from workloads.plan import Json
from workloads.recall import COLD, HIT, NEAR_BOUNDARY_TOKENS, REFILLED, RETURNED

_DEPTHS = ("start", "middle", "end")


def recalled(rows: Sequence[Row]) -> str:
    """Right answers of all, in words."""
    return f"{sum(row.right for row in rows)} of {len(rows)}"


def details(rows: Sequence[Row]) -> dict[str, Json]:
    """Rates of the cold answers from every side; those of the other arms in all."""
    cold = [row for row in rows if row.arm == COLD]
    low, high = rate_interval(sum(row.right for row in cold), len(cold))
    return {
        "form": _form(rows),
        "recall_cold": None if not cold else sum(row.right for row in cold) / len(cold),
        "recall_cold_low": low,
        "recall_cold_high": high,
        **{
            f"recall_{arm}": recalled(chosen)
            for arm in (CONTROL, COLD, HIT, RETURNED, REFILLED)
            if (chosen := [row for row in rows if row.arm == arm])
        },
        "by_kind": _by(cold, lambda row: row.kind),
        "by_depth": _by(cold, lambda row: _DEPTHS[min(2, int(row.begin * 3))]),
        "by_length": _by(cold, _length),
        "near_the_end_of_a_hit": recalled(_near(rows)),
        "longest_prompt_tokens": max(
            (row.prompt_tokens for row in cold if row.prompt_tokens is not None), default=None
        ),
    }


def _form(rows: Sequence[Row]) -> str | None:
    """What numbers looked like and how they were asked for."""
    shown = next((row for row in rows if row.arm != CONTROL and row.kind == NUMBER), None)
    return None if shown is None else f"numbers of {shown.digits} digits, asked for as {shown.asked!r}"


def _near(rows: Sequence[Row]) -> list[Row]:
    """Answers from the cache whose needle lies on the end of the hit, or within a few tokens of it."""
    warm = [row for row in rows if row.arm in (HIT, REFILLED) and row.served is True]
    near = [(row, distance) for row in warm if (distance := row.resume_distance) is not None]
    return [row for row, distance in near if distance <= NEAR_BOUNDARY_TOKENS]


def _by(rows: Sequence[Row], key: Callable[[Row], str]) -> dict[str, Json]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return {name: recalled(chosen) for name, chosen in groups.items()}


def _length(row: Row) -> str:
    """The power of two that the prompt is not longer than."""
    return "not reported" if row.prompt_tokens is None else f"up to {1 << (row.prompt_tokens - 1).bit_length()}"
