"""From pairs to a decision: what alarmed, what alarmed again on fresh prompts, what could not have been seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from harness.checks.eviction.pairs import LONG, SHAPED, Pair, Path
from harness.checks.eviction.tests import BENIGN_OFFSET, CONFIRM_LEVEL, FEWEST, Result, run_tests, smallest_effect

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
    planned = sum(_can_alarm(result) for group in families.values() for result in run_tests(group, 0.0))
    level = FAMILY_WISE / max(1, planned)
    results = [result for group in families.values() for result in run_tests(group, level)]
    alarms = tuple(result for result in results if result.alarm and _counts(result, families))
    repeated = [result for result in alarms if _repeats(result, fresh)]
    confirmed = tuple(result for result in repeated if _unexplained(result, fresh))
    measured = {name: group for name, group in families.items() if name != PLACEBO and _scored(group) >= FEWEST}
    effects = {name: smallest_effect(group, level) for name, group in measured.items()}
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


def _scored(group: Sequence[Pair]) -> int:
    return sum(pair.null is not None for pair in group)


def _can_alarm(result: Result) -> bool:
    """Whether a test shares the false-alarm rate: one with a p-value, on prompts enough."""
    return result.p_value is not None and result.count >= FEWEST


def _counts(result: Result, families: Mapping[str, Sequence[Pair]]) -> bool:
    """Whether an alarm is about the cache: cold answers that differ from each other must do so beyond any noise."""
    if result.family != PLACEBO or result.test == "hard":
        return True
    if result.test not in ("mean", "mean4"):
        return False
    return math.sqrt(median(pair.near_first for pair in families[PLACEBO])) > COLD_APART


def _repeats(result: Result, fresh: Mapping[str, Sequence[Pair]]) -> bool:
    return _alarms(result.test, fresh.get(result.family, []))


def _alarms(test: str, pairs: Sequence[Pair]) -> bool:
    return any(item.alarm for item in run_tests(pairs, CONFIRM_LEVEL) if item.test == test)


def _beyond_offsets(fresh: Sequence[Pair]) -> bool:
    """Whether a prompt that repeats a sparse alarm is three times as far off as the largest harmless offset."""
    named = {prompt for item in run_tests(fresh, CONFIRM_LEVEL) if item.test == "sparse" for prompt in item.prompts}
    return any(pair.prompt in named and pair.near_first > (3 * BENIGN_OFFSET) ** 2 for pair in fresh)


def _unexplained(result: Result, fresh: Mapping[str, Sequence[Pair]]) -> bool:
    """Whether no kernel that is chosen by the tail's length explains a repeated alarm between different paths.

    None does if cold runs of the hit's shape differ too, if long tails alarm as well, or if the difference is beyond
    every harmless offset. A far resume ends with the same tail as the hits that it is held against.
    """
    pairs = fresh[result.family]
    if pairs[0].path is not Path.CROSS or result.test in ("absolute", "hard") or result.family.endswith(LONG):
        return True
    if result.test == "sparse" and _beyond_offsets(pairs):
        return True
    return any(_alarms(result.test, fresh.get(result.family + kind, [])) for kind in (SHAPED, LONG))


def passing_effect(effects: Mapping[str, float]) -> float:
    """The smallest effect a pass would claim: of each arm the best of its comparisons, of all arms the worst.

    What came from the cache and what was computed anew are arms apart. Infinity if nothing was measured.
    """
    best: dict[tuple[str, bool], float] = {}
    for name, nats in effects.items():
        arm, _, reference = name.partition("/")
        key = arm, reference == "virgin"
        best[key] = min(nats, best.get(key, math.inf))
    return max(best.values(), default=math.inf)
