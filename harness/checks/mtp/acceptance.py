"""Acceptance as estimated from requests: each request is one draw, whatever its length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.checks.mtp.facts import Row
from harness.stats.bootstrap import group_draws, interval
from workloads.plan import Json

Floats = npt.NDArray[np.float64]
REPLICATES = 4000
FEWEST_REQUESTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Acceptance length with its 95% interval; low and high are None for fewer than two requests."""

    length: float
    low: float | None
    high: float | None
    requests: int
    steps: int

    def as_json(self) -> dict[str, Json]:
        """Rounded for a verdict's details."""
        bounds = [None if value is None else round(value, 3) for value in (self.low, self.high)]
        return {
            "acceptance_length": round(self.length, 3),
            "low": bounds[0],
            "high": bounds[1],
            "requests": self.requests,
            "steps": self.steps,
        }

    def in_words(self) -> str:
        """As "2.13 (1.98 to 2.29)"."""
        if self.low is None or self.high is None:
            return f"{self.length:.2f}"
        return f"{self.length:.2f} ({self.low:.2f} to {self.high:.2f})"


def with_steps(rows: Sequence[Row]) -> list[Row]:
    """Rows whose best account has at least one verify step."""
    return [row for row in rows if row.drafts is not None and row.drafts.steps > 0]


def estimate(rows: Sequence[Row]) -> Estimate | None:
    """1 + accepted / steps over all rows, resampled by request; None without steps."""
    counted = with_steps(rows)
    if not counted:
        return None
    accepted, steps = _columns(counted)
    low = high = None
    if len(counted) >= FEWEST_REQUESTS:
        low, high = interval(1 + _pooled(_weights(len(counted)), counted))
    length = 1 + float(accepted.sum() / steps.sum())
    return Estimate(length=length, low=low, high=high, requests=len(counted), steps=int(steps.sum()))


def by_group(rows: Sequence[Row]) -> dict[str, dict[str, Json]]:
    """Estimates by class and arm, as "prose, cold", classes and arms in the order of their first request."""
    found = {}
    for name in dict.fromkeys(f"{row.content}, {row.arm}" for row in rows):
        value = estimate([row for row in rows if f"{row.content}, {row.arm}" == name])
        if value is not None:
            found[name] = value.as_json()
    return found


def conditional_rates(rows: Sequence[Row]) -> tuple[float | None, ...]:
    """Share of drafts at each position that are accepted once those before them are; empty without histograms.

    From the number of steps by accepted drafts; None for a position that nothing reached.
    """
    histograms = [found for row in rows if (found := row.histogram) is not None]
    if not histograms:
        return ()
    depth = max(map(len, histograms))
    total = np.zeros(depth, np.float64)
    for histogram in histograms:
        total[: len(histogram)] += histogram
    at_least = total[::-1].cumsum()[::-1]
    return tuple(
        float(at_least[position] / at_least[position - 1]) if at_least[position - 1] > 0 else None
        for position in range(1, depth)
    )


def paired_ratio(pairs: Sequence[tuple[Row, Row]]) -> Floats:
    """Resamples of (drafts accepted per step, first of each pair) / (the same, second), float64[replicates].

    Over all steps of a side, not request by request: easy texts take few steps, and losing drafts shows least in them.
    """
    weights = _weights(len(pairs))
    above, below = (_pooled(weights, [pair[side] for pair in pairs]) for side in (0, 1))
    return _ratio(above, below)


def _pooled(weights: Floats, rows: Sequence[Row]) -> Floats:
    """Drafts accepted per step over all requests, by resample."""
    accepted, steps = _columns(rows)
    rates: Floats = (weights @ accepted) / (weights @ steps)
    return rates


def unpaired_ratio(rows: Sequence[Row], others: Sequence[Row]) -> Floats:
    """The same for two sets of requests, each class counted alike; classes of one side alone are left out."""
    mine, theirs = _by_class(rows), _by_class(others)
    shared = [name for name in mine if name in theirs]
    above, below = np.zeros(REPLICATES), np.zeros(REPLICATES)
    for number, name in enumerate(shared):
        for values, sums, seed in ((mine[name], above, 2 * number), (theirs[name], below, 2 * number + 1)):
            weights = _weights(len(values), seed)
            sums += (weights @ values) / len(values)
    return _ratio(above, below) if shared else np.ones(REPLICATES)


def _by_class(rows: Sequence[Row]) -> Mapping[str, Floats]:
    names = dict.fromkeys(row.content for row in rows)
    return {name: np.array([_per_step(row) for row in rows if row.content == name]) for name in names}


def _ratio(above: Floats, below: Floats) -> Floats:
    """1 where nothing was accepted below: there was nothing to lose."""
    ratio: Floats = np.where(below > 0, above / np.where(below > 0, below, 1.0), 1.0)
    return ratio


def _weights(count: int, seed: int = 0) -> Floats:
    return group_draws(count, REPLICATES, np.random.default_rng(seed)).astype(np.float64)


def _columns(rows: Sequence[Row]) -> tuple[Floats, Floats]:
    accounts = [row.drafts for row in rows if row.drafts is not None]
    return (
        np.array([account.accepted for account in accounts], np.float64),
        np.array([account.steps for account in accounts], np.float64),
    )


def _per_step(row: Row) -> float:
    """Drafts accepted per verify step."""
    account = row.drafts
    assert account is not None and account.steps > 0, "only rows with steps are compared"
    return account.accepted / account.steps
