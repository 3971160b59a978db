"""What has to hold before a model takes traffic: checks, objectives, required features, waivers."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.checks.verdict import Status

DEFAULT_BUDGET = "small"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A bound on a number in a verdict's details; `detail` is its path there, parted by dots."""

    detail: str
    min: float | None = None
    max: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckEntry:
    """One check that has to be asked.

    budget: None takes the profile's. required: NOT_APPLICABLE is not enough. blind_below_nats: a pass that could have
    missed more than this is none; None accepts what the check itself accepts.
    """

    name: str
    budget: str | None = None
    required: bool = False
    blind_below_nats: float | None = None
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """A bound on one metric of a cell, named as in summary.json, in its unit.

    min, max: absolute. min_of_baseline, max_of_baseline: factors of the same cell's value in the baseline run.
    """

    metric: str
    min: float | None = None
    max: float | None = None
    min_of_baseline: float | None = None
    max_of_baseline: float | None = None

    @property
    def compares(self) -> bool:
        """Whether it needs a baseline."""
        return self.min_of_baseline is not None or self.max_of_baseline is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Cells of one workload at some levels of load, and what each of them has to reach.

    sweep: settings of the cells, named as the fields of SweepOptions. max_failed_share: of the measured requests.
    """

    name: str
    sweep: Mapping[str, object] = field(default_factory=dict)
    max_failed_share: float = 0.0
    slos: tuple[Slo, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """A verdict that does not count until the end of the day `expires`.

    check: the row of the verdict table it is about. statuses: which verdicts it covers. containing: words that the
    verdict's reason has to hold, None for any.
    """

    check: str
    reason: str
    expires: datetime.date
    statuses: tuple[Status, ...] = (Status.FAIL, Status.SUSPECT, Status.INCONCLUSIVE)
    containing: str | None = None

    def covers(self, name: str, status: Status | None, reason: str) -> bool:
        """Whether it is about this verdict, expired or not; a check that broke cannot be waived."""
        named = self.containing is None or self.containing in reason
        return name == self.check and status in self.statuses and named

    def holds(self, today: datetime.date) -> bool:
        """Whether it has not expired."""
        return today <= self.expires


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Everything a gate asks for; see the shipped profiles for what each key means.

    What is None, and not set on the command line either, is left to each check.
    """

    name: str
    description: str = ""
    budget: str = DEFAULT_BUDGET
    max_tokens_total: int | None = None
    max_minutes: float | None = None
    fail_fast: bool = False
    heartbeat: bool = True
    deterministic: bool = False
    prefill_chunk: int | None = None
    expect_acceptance: float | None = None
    context: int | None = None
    price_input: float | None = None
    price_cached_input: float | None = None
    price_output: float | None = None
    goodput: Mapping[str, float] = field(default_factory=dict)
    require: tuple[str, ...] = ()
    checks: tuple[CheckEntry, ...] = ()
    objectives: tuple[Objective, ...] = ()
    waivers: tuple[Waiver, ...] = ()

    def entry(self, name: str) -> CheckEntry | None:
        """The entry of a check; None if the profile does not ask for it."""
        return next((each for each in self.checks if each.name == name), None)

    def budget_of(self, name: str) -> str:
        """The budget that a check is asked with."""
        entry = self.entry(name)
        return self.budget if entry is None or entry.budget is None else entry.budget

    @property
    def percentiles(self) -> tuple[float, ...]:
        """Percentiles that its bounds speak of, and the usual ones."""
        named = [re.match(r"p(\d+(?:\.\d+)?)_", slo.metric) for each in self.objectives for slo in each.slos]
        return tuple(sorted({50.0, 90.0, 99.0, *(float(found.group(1)) for found in named if found is not None)}))

    @property
    def needs_baseline(self) -> bool:
        """Whether a bound is relative to an earlier run."""
        return any(slo.compares for each in self.objectives for slo in each.slos)
