"""The history of the check as rows of numbers, in the order in which requests were begun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.history import Answer, CheckHistory
from harness.records import Outcome, Usage
from workloads.plan import Json

NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One answered request.

    name: of its prompt; the same name is the same prompt but for families that vary it. round_index: from 0.
    sighting: how often the name was asked before. may_hit: tokens at its start that anything earlier began with too.
    exact: may_hit is exact, not an estimate from text. cached_tokens / prompt_tokens: None if not reported. ttft_ms:
    None if it was not streamed. sent_ns / end_ns: None if never sent. choices: answers asked for at once. usages:
    every usage object of the answer.
    """

    request_id: str
    name: str
    arm: str
    round_index: int
    sighting: int
    may_hit: int
    exact: bool
    stream: bool
    prompt_hash: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    ttft_ms: float | None
    sent_ns: int | None
    end_ns: int | None
    labels: dict[str, Json]
    choices: int = 1
    usages: tuple[Usage, ...] = ()

    @property
    def point(self) -> tuple[int, int] | None:
        """Prompt tokens and cached tokens; None unless both were reported."""
        if self.prompt_tokens is None or self.cached_tokens is None:
            return None
        return self.prompt_tokens, self.cached_tokens

    @property
    def own_length(self) -> int:
        """Prompt tokens as reported, else as planned."""
        return _whole(self.labels.get("tokens")) if self.prompt_tokens is None else self.prompt_tokens

    @property
    def hit(self) -> bool:
        """Whether it reports any cached token."""
        return self.cached_tokens is not None and self.cached_tokens > 0


def rows_of(history: CheckHistory) -> list[Row]:
    """Every request that was answered; the others prove nothing about counts."""
    return [_row(answer) for answer in history.answers if answer.record.complete.outcome is Outcome.OK]


def unanswered_tokens(history: CheckHistory) -> int:
    """Planned prompt tokens of requests that may have been executed although no whole answer came."""
    lost = (answer.record.invoke for answer in history.answers if answer.record.complete.outcome is Outcome.UNKNOWN)
    return sum(_whole(invoke.labels.get("tokens")) for invoke in lost)


def _row(answer: Answer) -> Row:
    invoke, done = answer.record.invoke, answer.record.complete
    ttft_ns = None
    if done.first_token_ns is not None and done.sent_ns is not None:
        ttft_ns = done.first_token_ns - done.sent_ns
    return Row(
        request_id=invoke.request_id,
        name=invoke.session if invoke.session is not None else invoke.key,
        arm=invoke.arm if invoke.arm is not None else "",
        round_index=_round_index(invoke.cell),
        sighting=_whole(invoke.labels.get("sighting")),
        may_hit=_whole(invoke.labels.get("may_hit")),
        exact=invoke.labels.get("exact") is True,
        stream=invoke.parameters.get("stream") is True,
        prompt_hash=invoke.prompt_hash,
        prompt_tokens=None if done.usage is None else done.usage.prompt_tokens,
        cached_tokens=None if done.usage is None else done.usage.cached_tokens,
        ttft_ms=None if ttft_ns is None else ttft_ns / NS_PER_MS,
        sent_ns=done.sent_ns,
        end_ns=done.end_ns,
        labels=dict(invoke.labels),
        choices=max(1, _whole(invoke.parameters.get("n"))),
        usages=answer.usages,
    )


def _round_index(cell: str) -> int:
    tail = cell.rpartition("-r")[2]
    return int(tail) if tail.isdigit() else 0


def _whole(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def own_tokens(rows: Sequence[Row]) -> int:
    """Tokens that the server puts around every prompt, by the smallest, whose own is a single one; 0 if unknown."""
    smallest = [row.prompt_tokens for row in rows if row.arm == "smallest" and row.prompt_tokens is not None]
    return max(0, min(smallest) - 1) if smallest else 0
