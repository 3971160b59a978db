"""What a check says: a status with its reason, its evidence, and what it could not have seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from workloads.plan import Json


class Status(StrEnum):
    """NOT_APPLICABLE: feature absent and not required. SUSPECT: an alarm that did not repeat, or was not asked to.

    INCONCLUSIVE: too noisy, or not exercised, or something required is absent.
    """

    NOT_APPLICABLE = "not applicable"
    PASS = "pass"
    SUSPECT = "suspect"
    INCONCLUSIVE = "inconclusive"
    FAIL = "fail"


_BY_SEVERITY = (Status.NOT_APPLICABLE, Status.PASS, Status.INCONCLUSIVE, Status.SUSPECT, Status.FAIL)


def severity(status: str) -> int:
    """How grave a status is; FAIL is the gravest."""
    return _BY_SEVERITY.index(Status(status))


def worst(statuses: Iterable[Status]) -> Status:
    """The gravest of some statuses; NOT_APPLICABLE when there are none."""
    return max(statuses, key=_BY_SEVERITY.index, default=Status.NOT_APPLICABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One finding: the requests that show it, in words, at which generated position, and the numbers compared.

    position: counted from 0; None when it is not about one position.
    """

    request_ids: tuple[str, ...]
    text: str
    position: int | None = None
    table: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """What a check wants asked next: `count` fresh prompts in a stratum of its own terms, and why."""

    check: str
    stratum: Mapping[str, Json]
    count: int
    why: str

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"a follow-up asks for at least 1 prompt, got {self.count}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer to a check's question.

    eligible: units (prompts, pairs) that could have been examined; examined: those that were; violations: those found
    wrong. null_size: pairs that measured the endpoint's own noise, None where there is no such null. smallest_effect:
    the smallest difference in nats that would have been found, by test and distance from the resume point.
    """

    check: str
    status: Status
    reason: str
    eligible: int = 0
    examined: int = 0
    violations: int = 0
    evidence: tuple[Evidence, ...] = ()
    null_size: int | None = None
    smallest_effect: Mapping[str, float] = field(default_factory=dict)
    follow_up: FollowUp | None = None
    details: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.reason:
            raise ValueError("a verdict needs a reason")
        if self.status is Status.PASS and self.examined == 0:
            raise ValueError("nothing examined is never a pass")
