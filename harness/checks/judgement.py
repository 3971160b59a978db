"""One check's outcome in a run: its verdict, or where the traceback of its crash is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.checks.verdict import Status, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """verdict: None if the check crashed. traceback: the file in the run that holds it, None if it did not."""

    check: str
    verdict: Verdict | None = None
    traceback: str | None = None

    def __post_init__(self) -> None:
        if (self.verdict is None) == (self.traceback is None):
            raise ValueError(f"{self.check}: either a verdict or a traceback")


def statuses(judgements: Iterable[Judgement]) -> list[Status]:
    """The statuses of those that came to a verdict."""
    return [each.verdict.status for each in judgements if each.verdict is not None]
