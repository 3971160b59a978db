"""The second witness: what the server's own counters moved by while each request was alone with it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.checks.cached_tokens.facts import Row
from harness.records import CounterSample

FOREIGN_SLACK = 16
FOREIGN_SHARE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterWitness:
    """cached: by request id, cached tokens that the counters saw during a request that they saw alone and whole.

    foreign_tokens: prompt tokens that were not ours, 0 if none. usable: the counters saw all our prompts. problem: why
    not.
    """

    usable: bool
    cached: Mapping[str, int]
    foreign_tokens: int = 0
    problem: str | None = None


def counter_witness(
    rows: Sequence[Row], samples: Sequence[CounterSample], unanswered_tokens: int = 0
) -> CounterWitness:
    """Read the counters between the end of one request and the start of the next.

    unanswered_tokens: prompt tokens of ours that may have been counted although they were not answered.
    """
    prompts = [(sample.at_ns, sample.values["prompt_tokens"]) for sample in samples if "prompt_tokens" in sample.values]
    prompts.sort()
    if len(prompts) < 2:
        return CounterWitness(usable=False, cached={}, problem="the server shows no counters")
    if any(later[1] < earlier[1] for earlier, later in pairwise(prompts)):
        return CounterWitness(usable=False, cached={}, problem="the counters run backwards: several servers answer")
    moved = round(prompts[-1][1] - prompts[0][1])
    ours = sum(row.own_length for row in rows)
    # Several answers at once may count their prompt once each.
    at_most = unanswered_tokens + sum(row.own_length * row.choices for row in rows)
    slack = FOREIGN_SLACK + FOREIGN_SHARE * ours
    if moved > at_most + slack:
        return CounterWitness(usable=False, cached={}, foreign_tokens=moved - at_most, problem="not alone")
    if moved < ours - slack:
        problem = f"the counters saw {moved} of our {ours} prompt tokens"
        return CounterWitness(usable=False, cached={}, problem=problem)
    cached = _per_request(rows, samples)
    return CounterWitness(usable=bool(cached), cached=cached, problem=None if cached else "no cached-token counter")


def _per_request(rows: Sequence[Row], samples: Sequence[CounterSample]) -> dict[str, int]:
    """Only requests whose prompt the counters saw whole, and nothing else, between the samples around them."""
    both = sorted(
        (sample for sample in samples if {"prompt_tokens", "cached_tokens"} <= sample.values.keys()),
        key=lambda sample: sample.at_ns,
    )
    times = [sample.at_ns for sample in both]
    found = {}
    for row in rows:
        if row.sent_ns is None or row.end_ns is None or row.prompt_tokens is None:
            continue
        before, after = bisect_right(times, row.sent_ns) - 1, bisect_left(times, row.end_ns)
        if before < 0 or after == len(times):
            continue
        start, end = both[before].values, both[after].values
        if round(end["prompt_tokens"] - start["prompt_tokens"]) == row.prompt_tokens:
            found[row.request_id] = round(end["cached_tokens"] - start["cached_tokens"])
    return found
