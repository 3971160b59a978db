"""Answers that are not what the same request got alone, by more than noise explains, and where they came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from harness.checks.isolation.facts import Distance, Row, distances
from harness.stats.runs import too_few_runs
from harness.stats.tests import fisher_greater, rate_upper_bound
from workloads.plan import Json

# Batches of other sizes moved answers by at most 0.03 nats on the embedded engine in bf16 and by 0.25 on real servers;
# a state of somebody else's moves them by whole nats.
LOWEST_LIMIT_NATS = 0.3
HIGHEST_LIMIT_NATS = 1.0
NOISE_FACTOR = 8.0
FLIP_LIMIT_NATS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One wrong answer: how far it is from the nearest one alone; None where the text alone shows it."""

    row: Row
    reference: str
    rms: float | None
    flip: float | None

    def describe(self) -> str:
        """In words."""
        if self.rms is None:
            return f"{self.row.session} ({self.row.arm}): {self.row.text.strip()!r} instead of {self.row.codeword}"
        flip = "" if not self.flip else f", another token by {self.flip:.2g} nats"
        return f"{self.row.session} ({self.row.arm}, {self.row.size} at once): {self.rms:.2g} nats off{flip}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviations:
    """All answers that could be held against one alone, and those that deviate.

    limit: nats from which an answer deviates; None where texts alone were compared.
    """

    compared: tuple[Distance, ...]
    wrong: tuple[Deviation, ...]
    limit: float | None

    @property
    def in_company(self) -> tuple[Distance, ...]:
        """Compared answers that others were served before, beside or after."""
        return tuple(each for each in self.compared if not each.row.alone)

    def details(self) -> dict[str, Json]:
        """Rates by arm against asking alone, distance by size of the company, and whether wrong answers cluster."""
        bad = {id(each.row) for each in self.wrong}
        ordered = [id(each.row) in bad for each in self.in_company]
        return {
            "wrong_by_arm": self._by_arm(bad),
            "median_nats_by_size": self._by_size(),
            "clustered_p": too_few_runs(ordered),
            "rate_below": rate_upper_bound(sum(ordered), len(ordered)) if ordered else None,
        }

    def _by_arm(self, bad: set[int]) -> dict[str, Json]:
        alone = [id(each.row) in bad for each in self.compared if each.row.alone]
        found: dict[str, Json] = {"alone": f"{sum(alone)} of {len(alone)}"}
        for arm in dict.fromkeys(each.row.arm for each in self.in_company):
            flags = [id(each.row) in bad for each in self.in_company if each.row.arm == arm]
            p_value = fisher_greater(sum(flags), len(flags), sum(alone), len(alone))
            found[arm] = f"{sum(flags)} of {len(flags)}" + (f", p {p_value:.2g}" if any(flags) else "")
        return found

    def _by_size(self) -> Mapping[str, Json]:
        sizes: dict[int, list[float]] = {}
        for each in self.compared:
            if each.row.arm == "company" and each.rms is not None:
                sizes.setdefault(each.row.size, []).append(each.rms)
        return {str(size): round(median(values), 4) for size, values in sorted(sizes.items())}


def deviations(rows: Sequence[Row]) -> Deviations:
    """By log-probabilities where every compared answer has them, else by codewords."""
    compared = tuple(distances(rows))
    measured = [each.rms for each in compared if each.rms is not None]
    if compared and len(measured) == len(compared):
        limit = _limit(measured)
        wrong = [each for each in compared if _deviates(each, limit)]
    else:
        limit = None
        recalled = _recalled_alone(rows)
        wrong = [each for each in compared if not each.row.own and recalled.get(each.row.session) is True]
    return Deviations(
        compared=compared,
        wrong=tuple(
            Deviation(
                row=each.row,
                reference=each.reference,
                rms=None if limit is None else each.rms,
                flip=None if limit is None else each.flip,
            )
            for each in wrong
        ),
        limit=limit,
    )


def _limit(measured: Sequence[float]) -> float:
    """From the distance of the nearer quarter, so that a fault in most answers does not raise its own limit."""
    near = quantiles(measured, n=4)[0] if len(measured) > 1 else measured[0]
    return min(HIGHEST_LIMIT_NATS, max(LOWEST_LIMIT_NATS, NOISE_FACTOR * near))


def _deviates(distance: Distance, limit: float) -> bool:
    far = distance.rms is not None and distance.rms >= limit
    return far or (distance.flip is not None and distance.flip >= FLIP_LIMIT_NATS)


def _recalled_alone(rows: Sequence[Row]) -> dict[str, bool]:
    """By session, whether it gave its codeword in all of at least two answers alone."""
    alone: dict[str, list[bool]] = {}
    for row in rows:
        if row.alone and row.codeword is not None:
            alone.setdefault(row.session, []).append(row.own)
    return {session: len(own) > 1 and all(own) for session, own in alone.items()}
