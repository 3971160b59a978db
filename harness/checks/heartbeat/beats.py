"""Each probe of each battery against the same probe before any load."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from harness.checks.degenerate import garbage
from harness.checks.history import Answer, CheckHistory
from harness.checks.verdict import Evidence
from harness.records import Outcome
from harness.stats.gaps import mean_gap, squared_gaps
from workloads.heartbeat import BEFORE, LOAD
from workloads.plan import Json

# The largest harmless difference of two paths on any engine is 0.25 nats; the same path differs by its noise alone.
SMALLEST_CHANGE = 0.5
TIMES_NOISE = 8.0


class Wrong(StrEnum):
    """What a probe can come to; it counts when every repeat of it does."""

    LOST = "no answer"
    GARBAGE = "degenerate output"
    CHANGED = "another answer than before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One probe in one battery, salted or not.

    wrong: None if at least one repeat was as before. distance: nats RMS of the repeat nearest to an answer before, None
    if none could be compared. compared: repeats that could be.
    """

    probe: str
    salted: bool
    phase: str
    answers: tuple[Answer, ...]
    wrong: Wrong | None
    distance: float | None
    compared: int

    def evidence(self) -> Evidence:
        """The battery's answers to this probe."""
        how = "under a fresh salt" if self.salted else "as it was asked before"
        near = "" if self.distance is None else f", {self.distance:.2f} nats RMS from the nearest answer before"
        table: dict[str, Json] = {
            "phase": self.phase,
            "salted": self.salted,
            "distance_nats": None if self.distance is None or math.isinf(self.distance) else self.distance,
            "texts": [answer.record.complete.text for answer in self.answers],
        }
        return Evidence(
            request_ids=tuple(answer.record.invoke.request_id for answer in self.answers),
            text=f"probe {self.probe} {self.phase} load, {how}: {self.wrong}{near}",
            table=table,
        )


def by_phase(history: CheckHistory) -> dict[str, list[Answer]]:
    """Probes by battery, in the order of asking; load apart, under its own name."""
    found: dict[str, list[Answer]] = defaultdict(list)
    for answer in history.answers:
        found[str(answer.record.invoke.labels.get("phase"))].append(answer)
    return found


def noise_of(before: Sequence[Answer]) -> float | None:
    """Largest distance between two answers before load of one probe on one path; None if there are no two."""
    found = [
        gap
        for group in _grouped(before).values()
        for one, other in combinations(group, 2)
        if _warm(one) == _warm(other) and (gap := distance(one, other)) is not None
    ]
    return max(found, default=None)


def beats(phases: Mapping[str, Sequence[Answer]], noise: float | None) -> Iterator[Beat]:
    """Every probe of every later battery."""
    references = _grouped(phases.get(BEFORE, ()))
    limit = max(SMALLEST_CHANGE, TIMES_NOISE * (0.0 if noise is None else noise))
    for phase, answers in phases.items():
        if phase in (BEFORE, LOAD):
            continue
        for (probe, salted), group in _grouped(answers).items():
            yield _beat(probe, salted, phase, group, references.get((probe, salted), []), limit)


def _beat(
    probe: str, salted: bool, phase: str, group: Sequence[Answer], references: Sequence[Answer], limit: float
) -> Beat:
    sound = [answer for answer in references if is_ok(answer) and garbage(answer) is None]
    distances = [nearest for answer in group if (nearest := _nearest(answer, sound)) is not None]
    wrong = None
    if sound and not any(map(is_ok, group)):
        wrong = Wrong.LOST
    elif sound and all(garbage(answer) is not None for answer in group if is_ok(answer)):
        wrong = Wrong.GARBAGE
    elif distances and min(distances) > limit:
        wrong = Wrong.CHANGED
    return Beat(
        probe=probe,
        salted=salted,
        phase=phase,
        answers=tuple(group),
        wrong=wrong,
        distance=min(distances, default=None),
        compared=len(distances),
    )


def _nearest(answer: Answer, references: Sequence[Answer]) -> float | None:
    """Distance to the nearest answer before load that came by the same path; None without one."""
    if not is_ok(answer):
        return None
    gaps = [distance(answer, other) for other in references if _warm(other) == _warm(answer)]
    return min((gap for gap in gaps if gap is not None), default=None)


def distance(one: Answer, other: Answer) -> float | None:
    """Nats RMS over the positions with the same context; without log-probabilities 0 for one text and infinite else."""
    if one.logprobs is None or other.logprobs is None:
        mine, theirs = one.record.complete.text, other.record.complete.text
        return None if mine is None or theirs is None else 0.0 if mine == theirs else math.inf
    gap = mean_gap(squared_gaps(one.logprobs, other.logprobs))
    return None if gap is None or math.isnan(gap) else math.sqrt(gap)


def _grouped(answers: Sequence[Answer]) -> dict[tuple[str, bool], list[Answer]]:
    found: dict[tuple[str, bool], list[Answer]] = defaultdict(list)
    for answer in answers:
        labels = answer.record.invoke.labels
        found[str(labels.get("probe")), labels.get("salted") is True].append(answer)
    return found


def is_ok(answer: Answer) -> bool:
    """Whether it was answered."""
    return answer.record.complete.outcome is Outcome.OK


def _warm(answer: Answer) -> bool | None:
    usage = answer.record.complete.usage
    return None if usage is None or usage.cached_tokens is None else usage.cached_tokens > 0
