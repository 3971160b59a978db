"""Three witnesses of the same thing: usage, the server's counters, and time. Two of them decide."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.cached_tokens.counting import CounterWitness
from harness.checks.cached_tokens.facts import Row
from harness.checks.cached_tokens.reuse import IDENTICAL, settled
from harness.checks.cached_tokens.rules import MEANINGS, OVER_REPORT, ZERO_OR_ABSENT, Violation
from harness.checks.cached_tokens.timing import TimeWitness
from harness.checks.verdict import Evidence
from workloads.plan import Json

FEWEST_ROWS = 6
# Shares of the prompt (or of what is reported) that time says was skipped: above is a hit, below is none.
SURE_HIT = 0.5
SURE_MISS = 0.2
COUNTER_SLACK = 1
FEWEST_CONTRADICTIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Witnesses against each other. proven: two against usage; else one against one, which asks for a second look."""

    violation: Violation
    proven: bool


def contradictions(
    rows: Sequence[Row], counters: CounterWitness, time: TimeWitness, domains: int
) -> list[Contradiction]:
    """Where counters or time say another thing than usage, over enough requests to mean it."""
    return [
        each
        for each in (
            _hidden_hits(rows, counters, time, domains),
            _hollow_hits(rows, counters, time),
            _other_counts(rows, counters, time),
        )
        if each is not None
    ]


def _skipped_share(rows: Sequence[Row], time: TimeWitness, *, of_reported: bool) -> float | None:
    """Median share of the prompts, or of their reported cached tokens, that time says was skipped; None if too few."""
    shares = []
    for row in rows:
        skipped = time.skipped_tokens(row)
        whole = row.cached_tokens if of_reported else row.prompt_tokens
        if skipped is not None and whole:
            shares.append(skipped / whole)
    return statistics.median(shares) if len(shares) >= FEWEST_ROWS else None


def _hidden_hits(
    rows: Sequence[Row], counters: CounterWitness, time: TimeWitness, domains: int
) -> Contradiction | None:
    """Repeats that report nothing although they were hits."""
    silent = [row for row in settled(rows, domains) if not row.hit]
    share = _skipped_share(silent, time, of_reported=False)
    counted = [row for row in silent if counters.usable and counters.cached.get(row.request_id, 0) > 0]
    by_time = share is not None and share > SURE_HIT
    by_count = len(counted) >= FEWEST_CONTRADICTIONS
    if not (by_time or by_count):
        return None
    shown = counted if by_count else silent
    said = "; ".join(
        [
            *([f"the counters saw hits in {len(counted)} of them"] if by_count else []),
            *([f"by time {share:.0%} of their prompts was skipped"] if by_time and share is not None else []),
        ]
    )
    what = "nothing at all" if all(row.cached_tokens is None for row in silent) else "no cached tokens"
    text = f"{len(silent)} repeats report {what}, but {said}"
    proven = by_time and (by_count or not counters.usable)
    return Contradiction(violation=_violation(ZERO_OR_ABSENT, shown, text, counters), proven=proven or by_count)


def _hollow_hits(rows: Sequence[Row], counters: CounterWitness, time: TimeWitness) -> Contradiction | None:
    """Reported hits that take as long as if nothing had been reused."""
    reported = [row for row in rows if row.arm in IDENTICAL and row.hit]
    share = _skipped_share(reported, time, of_reported=True)
    if share is None or share > SURE_MISS:
        return None
    text = f"{len(reported)} answers report cached tokens, but by time only {max(0.0, share):.0%} of those was skipped"
    agree = counters.usable and all(counters.cached.get(row.request_id, 0) > 0 for row in reported)
    denied = counters.usable and all(counters.cached.get(row.request_id, 1) == 0 for row in reported)
    return Contradiction(
        violation=_violation(OVER_REPORT, reported, text, counters), proven=denied or (not agree and counters.usable)
    )


def _other_counts(rows: Sequence[Row], counters: CounterWitness, time: TimeWitness) -> Contradiction | None:
    """Numbers in usage that the counters do not confirm."""
    if not counters.usable:
        return None
    differing = [
        row
        for row in rows
        if row.cached_tokens is not None
        and row.request_id in counters.cached
        and abs(counters.cached[row.request_id] - row.cached_tokens) > COUNTER_SLACK
    ]
    over = [row for row in differing if _excess(row, counters) > 0]
    under = [row for row in differing if _excess(row, counters) < 0]
    worse = over if len(over) >= len(under) else under
    if len(worse) < FEWEST_CONTRADICTIONS:
        return None
    fault = OVER_REPORT if worse is over else ZERO_OR_ABSENT
    excess = statistics.median(abs(_excess(row, counters)) for row in worse)
    more = "more" if worse is over else "fewer"
    text = f"{len(worse)} answers report {excess:.0f} tokens {more} than the counters saw (median)"
    sided = _time_sides(worse, counters, time)
    if sided == "usage" and not any(counters.cached.values()):
        text = f"the counters saw no hit in any request, {len(worse)} answers report hits, and time agrees with them"
        return Contradiction(violation=_violation(ZERO_OR_ABSENT, worse, text, counters), proven=True)
    if sided == "usage":
        text += "; time agrees with usage"
    elif sided == "counters":
        text += "; time agrees with the counters"
    return Contradiction(violation=_violation(fault, worse, text, counters), proven=sided == "counters")


def _excess(row: Row, counters: CounterWitness) -> int:
    return (row.cached_tokens if row.cached_tokens is not None else 0) - counters.cached[row.request_id]


def _time_sides(rows: Sequence[Row], counters: CounterWitness, time: TimeWitness) -> str | None:
    """Whose numbers the time is nearer to, by clearly more than its noise; None if it cannot tell."""
    nearer = []
    noise_tokens = time.noise_ms / time.ms_per_token if time.usable else 0.0
    for row in rows:
        skipped = time.skipped_tokens(row)
        if skipped is None or row.cached_tokens is None:
            continue
        to_usage, to_counters = abs(skipped - row.cached_tokens), abs(skipped - counters.cached[row.request_id])
        if abs(_excess(row, counters)) > 2 * noise_tokens:
            nearer.append(to_counters - to_usage)
    if len(nearer) < FEWEST_CONTRADICTIONS:
        return None
    return "usage" if statistics.median(nearer) > 0 else "counters"


def _violation(fault: str, rows: Sequence[Row], text: str, counters: CounterWitness) -> Violation:
    table: dict[str, Json] = {
        "request": [row.request_id for row in rows],
        "prompt_tokens": [row.prompt_tokens for row in rows],
        "reported": [row.cached_tokens for row in rows],
        "counted": [counters.cached.get(row.request_id) for row in rows],
        "ttft_ms": [None if row.ttft_ms is None else round(row.ttft_ms, 2) for row in rows],
    }
    ids = tuple(row.request_id for row in rows[:8])
    return Violation(fault=fault, evidence=Evidence(request_ids=ids, text=f"{MEANINGS[fault]}: {text}", table=table))
