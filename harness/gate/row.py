"""One line of the gate's table, and the whole of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from harness.checks.verdict import Evidence, Status, severity

OVERALL_BROKEN = "broken"
UNSOUND = "unsound"


class Kind(StrEnum):
    """What a row is about: the endpoint's answers, its speed, what it can do, or the harness itself."""

    CHECK = "check"
    FEATURE = "feature"
    OBJECTIVE = "objective"
    HARNESS = "harness"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """status: None if the check broke. waived: the waiver's reason and last day, None if none holds."""

    name: str
    kind: Kind
    status: Status | None
    reason: str
    evidence: tuple[Evidence, ...] = ()
    waived: str | None = None

    @property
    def shown_status(self) -> str:
        """The status in one word or two; harness rows that fail are unsound, not failed."""
        if self.status is None:
            return OVERALL_BROKEN
        return UNSOUND if self.kind is Kind.HARNESS and self.status is Status.FAIL else self.status.value

    @property
    def gravity(self) -> float:
        """How grave it is; waived ones are graver than a pass alone."""
        broken = severity(Status.FAIL.value) - 0.5
        if self.waived is not None:
            return severity(Status.PASS.value) + 0.5
        return broken if self.status is None else severity(self.status.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """rows: worst first. verdict: one word for all of them. went_wrong_after: the phase after which the heartbeat
    between phases found other answers, None if it did not.
    """

    profile: str
    verdict: str
    exit_code: int
    rows: tuple[Row, ...]
    went_wrong_after: str | None = None
