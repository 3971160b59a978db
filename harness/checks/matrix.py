"""What the checks made of planted faults, and of variants of a server that nothing is wrong with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from harness.checks.verdict import Status
from workloads.plan import Json

# Sizes of faults that have to be found; the others are found by what is known of them, or with a larger budget.
HELD = frozenset({"gross", "medium", "accounting"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one check said. status: None if it broke. requests: how many it asked."""

    check: str
    status: Status | None
    reason: str
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One server that was asked: a fault in one mode, or a healthy variant.

    code: "" for a variant, whose mode is its name. size: as the engine describes the fault, "healthy" for a variant.
    run: the folder of its answers, inside the run.
    """

    code: str
    mode: str
    size: str
    engine: tuple[str, ...]
    seen: tuple[Seen, ...]
    run: str

    @property
    def name(self) -> str:
        """As it is given to --faults."""
        return f"{self.code}:{self.mode}" if self.code else self.mode

    @property
    def detected_by(self) -> tuple[str, ...]:
        """The checks that failed it."""
        return tuple(each.check for each in self.seen if each.status is Status.FAIL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All trials of a self-test."""

    faults: tuple[Trial, ...] = ()
    healthy: tuple[Trial, ...] = ()

    @property
    def missed(self) -> tuple[Trial, ...]:
        """Faults of the sizes that have to be found, and were not."""
        return tuple(each for each in self.faults if each.size in HELD and not each.detected_by)

    @property
    def accused(self) -> tuple[Trial, ...]:
        """Healthy variants that some check failed."""
        return tuple(each for each in self.healthy if each.detected_by)

    @property
    def broken(self) -> bool:
        """Whether a check crashed anywhere."""
        return any(seen.status is None for trial in (*self.faults, *self.healthy) for seen in trial.seen)

    @property
    def checks(self) -> tuple[str, ...]:
        """Every check that was asked, in the order of first use."""
        return tuple(dict.fromkeys(seen.check for trial in (*self.faults, *self.healthy) for seen in trial.seen))

    def as_json(self) -> dict[str, Json]:
        """Faults with what each check said, and the counts of verdicts over the healthy variants."""
        counts = Counter(seen.status for trial in self.healthy for seen in trial.seen)
        return {
            "faults": [_fault_json(trial) for trial in self.faults],
            "healthy": {
                "runs": counts.total(),
                "fail": counts[Status.FAIL],
                "suspect": counts[Status.SUSPECT],
                "inconclusive": counts[Status.INCONCLUSIVE],
                "variants": [_fault_json(trial) for trial in self.healthy],
            },
            "missed": [trial.name for trial in self.missed],
        }


def _fault_json(trial: Trial) -> dict[str, Json]:
    return {
        "code": trial.code,
        "mode": trial.mode,
        "size": trial.size,
        "detected_by": list(trial.detected_by),
        "verdicts": {seen.check: "broken" if seen.status is None else seen.status.value for seen in trial.seen},
        "reasons": {seen.check: seen.reason for seen in trial.seen},
        "requests": {seen.check: seen.requests for seen in trial.seen},
        "engine": list(trial.engine),
        "run": trial.run,
    }
