"""The answers of the check with their labels, and what a broken rule looks like."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.checks.degenerate import REPLACEMENT
from harness.checks.history import Answer, CheckHistory
from harness.checks.verdict import Evidence
from harness.records import Outcome
from workloads.plan import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken rule; `rule` names it in a word or two."""

    rule: str
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The answers to one prompt, of one kind of end, in both forms; all of them OK."""

    name: str
    kind: str
    streamed: tuple[Answer, ...]
    whole: tuple[Answer, ...]

    @property
    def both(self) -> bool:
        """Whether the two forms can be compared."""
        return bool(self.streamed) and bool(self.whole)


def answered(history: CheckHistory) -> list[Answer]:
    """Every answer that came in full."""
    return [answer for answer in history.answers if answer.record.complete.outcome is Outcome.OK]


def groups_of(answers: Sequence[Answer]) -> list[Group]:
    """Answers by prompt, in the order of asking; those with usage in every event stand aside."""
    by_name: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.record.invoke.labels.get("continuous") is not True:
            by_name[answer.record.invoke.session or answer.record.invoke.key].append(answer)
    return [
        Group(
            name=name,
            kind=str(same[0].record.invoke.labels.get("kind")),
            streamed=tuple(answer for answer in same if streams(answer)),
            whole=tuple(answer for answer in same if not streams(answer)),
        )
        for name, same in by_name.items()
    ]


def streams(answer: Answer) -> bool:
    """Whether it was asked for as a stream."""
    return answer.record.invoke.parameters.get("stream") is True


def said(answer: Answer) -> str:
    """Its text without what a template or a token limit may leave at its ends."""
    text = answer.record.complete.text
    return "" if text is None else text.rstrip(REPLACEMENT).strip()


def violation(rule: str, answers: Sequence[Answer], text: str, **table: Json) -> Violation:
    """A broken rule shown by some answers."""
    ids = tuple(answer.record.invoke.request_id for answer in answers[:8])
    name = answers[0].record.invoke.session or answers[0].record.invoke.key
    facts: Mapping[str, Json] = {"prompt": name, **table}
    return Violation(rule=rule, evidence=Evidence(request_ids=ids, text=f"{name}: {text}", table=facts))
