"""From pairs to a decision: what alarmed, what alarmed again on fresh prompts, what could not have been seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from harness.checks.eviction.pairs import Pair, Path
from harness.checks.eviction.tests import CONFIRM_LEVEL, Result, run_tests, smallest_effect

FAMILY_WISE = 1e-3
PLACEBO = "virgin/virgin"
COLD_APART = 0.5
"""Nats by which healthy cold answers to one prompt, asked alone, never differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """alarms: of the first look. confirmed: those that the fresh prompts repeated. unmatched: alarms that repeated, but
    only where a kernel chosen by the tail's length could explain them. tests: how many were run in the first look.
    placebo: cold answers that differ from each other more than hits do. smallest_effects: nats by family.
    """

    alarms: tuple[Result, ...]
    confirmed: tuple[Result, ...]
    unmatched: tuple[Result, ...]
    tests: int
    level: float
    placebo: bool
    asked_again: bool
    smallest_effects: Mapping[str, float]


def by_family(pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    """Pairs grouped by family."""
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(pair.family, []).append(pair)
    return found


def decide(pairs: Sequence[Pair]) -> Decision:
    """Decide on all pairs of all rounds; round 0 is the first look."""
    families = by_family([pair for pair in pairs if pair.round_index == 0])
    fresh = by_family([pair for pair in pairs if pair.round_index > 0])
    planned = sum(len(run_tests(group, 0.0)) for group in families.values())
    level = FAMILY_WISE / max(1, planned)
    results = [result for group in families.values() for result in run_tests(group, level)]
    alarms = tuple(result for result in results if result.alarm and _counts(result, families))
    repeated = [result for result in alarms if _repeats(result, fresh.get(result.family, []))]
    confirmed = tuple(result for result in repeated if _unexplained(result, fresh[result.family]))
    effects = {name: smallest_effect(group, level) for name, group in families.items() if name != PLACEBO}
    return Decision(
        alarms=alarms,
        confirmed=confirmed,
        unmatched=tuple(result for result in repeated if result not in confirmed),
        tests=planned,
        level=level,
        placebo=any(result.alarm and result.family == PLACEBO and result.test != "hard" for result in results),
        asked_again=bool(fresh),
        smallest_effects={name: effect for name, effect in effects.items() if effect is not None},
    )


def _counts(result: Result, families: Mapping[str, Sequence[Pair]]) -> bool:
    """Whether an alarm is about the cache: cold answers that differ from each other must do so beyond any noise."""
    if result.family != PLACEBO:
        return True
    if result.test not in ("mean", "mean4"):
        return False
    return math.sqrt(median(pair.near_first for pair in families[PLACEBO])) > COLD_APART


def _repeats(result: Result, fresh: Sequence[Pair]) -> bool:
    again = {item.test: item for item in run_tests(fresh, CONFIRM_LEVEL)}
    return result.test in again and again[result.test].alarm


def _unexplained(result: Result, fresh: Sequence[Pair]) -> bool:
    """Whether no kernel that is chosen by the tail's length explains a repeated alarm between different paths.

    None does if cold runs ended in a piece of the tail's length too, if long tails alarm as well, or if the difference
    is beyond every harmless offset.
    """
    if fresh[0].path is not Path.CROSS or result.test in ("absolute", "hard"):
        return True
    aligned = [pair for pair in fresh if pair.aligned]
    long = [pair for pair in fresh if not pair.short]
    return any(
        item.test == result.test and item.alarm for group in (aligned, long) for item in run_tests(group, CONFIRM_LEVEL)
    )
