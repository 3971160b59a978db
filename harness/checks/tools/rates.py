"""How often tools are called when they fit, and how often arguments fit: rates with their intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.checks.tools.facts import Row
from harness.stats.bootstrap import group_draws, interval
from harness.stats.rates import rate_interval
from harness.stats.tests import discordant_greater
from workloads.plan import Json
from workloads.tools import AUTO, GROUNDED, HIT, PARALLEL, SINGLE, UNFIT

REPLICATES = 2000
TRIGGERS = (AUTO, PARALLEL, UNFIT)


def details(rows: Sequence[Row]) -> dict[str, Json]:
    """Every rate of the check; None where nothing was counted."""
    answered = [row for row in rows if row.ok]
    calling = [row for row in answered if row.calls and not row.cut]
    fitting = sum(not row.wrong_calls for row in calling)
    low, high = rate_interval(fitting, len(calling))
    return {
        "calls": sum(len(row.calls) for row in answered),
        "schema_accuracy": fitting / len(calling) if calling else None,
        "schema_accuracy_low": low,
        "schema_accuracy_high": high,
        **_trigger(answered),
        "two_calls_at_once": _of([row for row in answered if row.kind == PARALLEL], lambda row: len(row.calls) > 1),
        "kept_to_one_call": _of([row for row in answered if row.kind == SINGLE], lambda row: len(row.calls) <= 1),
        "tool_results_used": _of([row for row in answered if row.kind == GROUNDED], lambda row: row.value_told is True),
        "from_the_cache": _of([row for row in answered if row.arm == HIT], lambda row: row.hit is True),
        "cut_by_the_limit": sum(row.cut for row in answered),
        "refused": sum(row.refused for row in rows),
    }


def _of(rows: Sequence[Row], holds: object) -> str | None:
    assert callable(holds)
    return f"{sum(bool(holds(row)) for row in rows)} of {len(rows)}" if rows else None


def _trigger(rows: Sequence[Row]) -> dict[str, Json]:
    """F1 of calling the tool that fits; the interval resamples conversations."""
    chosen = [row for row in rows if row.kind in TRIGGERS and not row.cut]
    names = sorted({row.conversation for row in chosen})
    counts = np.zeros((len(names), 3))
    for row in chosen:
        counts[names.index(row.conversation)] += _counted(row)
    if not counts[:, 0].sum():
        return {"trigger_f1": 0.0 if chosen else None}
    draws = group_draws(len(names), REPLICATES, np.random.default_rng(0)) @ counts
    low, high = interval(2 * draws[:, 0] / np.maximum(1, 2 * draws[:, 0] + draws[:, 1] + draws[:, 2]))
    right, false, missed = counts.sum(axis=0)
    return {
        "trigger_f1": float(2 * right / (2 * right + false + missed)),
        "trigger_f1_low": low,
        "trigger_f1_high": high,
        "trigger_counts": {"right": int(right), "called in vain": int(false), "missed": int(missed)},
    }


def _counted(row: Row) -> tuple[bool, bool, bool]:
    """Right, called in vain, missed; another tool than the one that fits is both of the latter."""
    if row.expected is None:
        return False, bool(row.calls), False
    right = any(call.name == row.expected for call in row.calls)
    return right, bool(row.calls) and not right, not right


def cache_loss(rows: Sequence[Row], round_index: int | None = None) -> tuple[float, int, int]:
    """The chance that so many conversations go wrong on hits alone, with how many did, and how many came right."""
    balance: dict[str, int] = {}
    chosen = [row for row in rows if row.ok and not row.cut and round_index in (None, row.round_index)]
    cold = {(row.conversation, row.streamed): row for row in chosen if row.arm != HIT}
    for row in chosen:
        other = cold.get((row.conversation, row.streamed))
        if row.arm == HIT and row.hit is not False and other is not None:
            balance[row.conversation] = balance.get(row.conversation, 0) + int(_good(other)) - int(_good(row))
    worse, better = sum(each > 0 for each in balance.values()), sum(each < 0 for each in balance.values())
    return discordant_greater(worse, better), worse, better


def _good(row: Row) -> bool:
    return row.as_wanted if row.value_told is None else row.value_told
