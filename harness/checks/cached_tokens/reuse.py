"""What the reuse looks like from outside: its grid, the smallest prefix worth sharing, turns, and how many caches."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.checks.cached_tokens.facts import Row
from workloads.granularity import Point, Rule, fit
from workloads.plan import Json

SETTLED_SIGHTING = 2
IDENTICAL = ("repeat", "length", "boundary", "stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """What the answers together show.

    rule: None without a hit. settled: points it was fitted on. misfits: those it does not explain. domains: caches
    behind the address. first_hit: the sighting (from 1) at which a repeated prompt first hits, None if none did.
    smallest_prefix: fewest shared tokens that another tail could use, None if none could. turn_computed / turn_saved:
    median tokens computed and saved in later turns of a growing conversation. fork_saved: median share of the shared
    prefix that a fork reused, by sighting.
    """

    rule: Rule | None
    settled: int
    misfits: tuple[Point, ...]
    domains: int
    first_hit: int | None
    smallest_prefix: int | None
    turn_computed: float | None
    turn_saved: float | None
    fork_saved: Mapping[str, float]

    def details(self) -> dict[str, Json]:
        """For the verdict."""
        rule = self.rule
        return {
            "step": None if rule is None else rule.step,
            "offset": None if rule is None else rule.offset,
            "drop": None if rule is None else rule.drop,
            "settled_points": self.settled,
            "misfits": [list(point) for point in self.misfits[:8]],
            "misfit_count": len(self.misfits),
            "cache_domains": self.domains,
            "first_hit_at_sighting": self.first_hit,
            "smallest_useful_prefix_tokens": self.smallest_prefix,
            "later_turn_computed_tokens": self.turn_computed,
            "later_turn_saved_tokens": self.turn_saved,
            "fork_reused_share": dict(self.fork_saved),
        }


def reuse(rows: Sequence[Row]) -> Reuse:
    """Read it off the settled rows: identical prompts from their third sighting on, in every cache that there is."""
    domains = cache_domains(rows)
    points = [row.point for row in settled(rows, domains) if row.point is not None]
    rule = fit(points)
    computed, saved = _turns(rows, domains)
    return Reuse(
        rule=rule,
        settled=len(points),
        misfits=() if rule is None else tuple(rule.misses(points)),
        domains=domains,
        first_hit=_first_hit(rows),
        smallest_prefix=_smallest_prefix(rows),
        turn_computed=computed,
        turn_saved=saved,
        fork_saved=_forks(rows),
    )


def settled(rows: Sequence[Row], domains: int) -> list[Row]:
    """Rows of identical prompts that every cache has seen at least twice before, and as often as a hit takes here."""
    first = _first_hit(rows)
    needed = max(SETTLED_SIGHTING * domains, 0 if first is None else first - 1)
    return [row for row in rows if row.arm in IDENTICAL and row.sighting >= needed]


def cache_domains(rows: Sequence[Row]) -> int:
    """How many caches answer: by the spacing at which a prompt was met again, or by hits that come and go.

    2 stands for "several" where hits come and go.
    """
    by_spacing = [
        int(spacing)
        for row in rows
        if row.arm == "spacing"
        and row.sighting > 0
        and row.hit
        and isinstance(spacing := row.labels.get("spacing"), int)
    ]
    if by_spacing:
        first = min(by_spacing)
        return first if first > 1 or not _come_and_go(rows) else 2
    return 2 if _come_and_go(rows) else 1


def _come_and_go(rows: Sequence[Row]) -> bool:
    """Whether a prompt that had hit came back as a complete miss, more than once over all prompts."""
    lost = 0
    for same in _by_name(row for row in rows if row.arm in IDENTICAL):
        seen = False
        for row in same:
            lost += seen and row.cached_tokens == 0
            seen = seen or row.hit
    return lost > 1


def _first_hit(rows: Sequence[Row]) -> int | None:
    """The earliest sighting, from 1, at which most repeated prompts hit."""
    for sighting in sorted({row.sighting for row in rows if row.sighting > 0}):
        there = [row for row in rows if row.arm in ("repeat", "length") and row.sighting == sighting]
        if there and 2 * sum(row.hit for row in there) > len(there):
            return sighting + 1
    return None


def _smallest_prefix(rows: Sequence[Row]) -> int | None:
    useful = [row for row in rows if row.arm == "prefix" and row.sighting > 0 and row.hit]
    sizes = [size for row in useful if isinstance(size := row.labels.get("prefix"), int)]
    return min(sizes, default=None)


def _turns(rows: Sequence[Row], domains: int) -> tuple[float | None, float | None]:
    """Computed and saved tokens of the turns after the second, last request of each."""
    last: dict[tuple[int, str, int], Row] = {}
    for row in rows:
        turn = row.labels.get("turn")
        if row.arm == "turn" and isinstance(turn, int) and turn >= 2:
            last[row.round_index, row.name, turn] = row
    points = [row.point for row in last.values() if row.point is not None]
    if not points:
        return None, None
    computed = statistics.median(length - cached for length, cached in points)
    return computed, statistics.median(cached for _, cached in points)


def _forks(rows: Sequence[Row]) -> dict[str, float]:
    shares: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        depth = row.labels.get("prefix")
        if row.arm == "fork" and isinstance(depth, int) and row.cached_tokens is not None:
            shares[row.sighting].append(row.cached_tokens / depth)
    return {
        f"sighting {sighting + 1}": round(statistics.median(found), 3) for sighting, found in sorted(shares.items())
    }


def _by_name(rows: Iterable[Row]) -> list[list[Row]]:
    groups: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.round_index, row.name].append(row)
    return list(groups.values())
