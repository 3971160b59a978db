"""The answers of the check: how long each prompt was meant to be, was counted as, and what became of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.history import Answer
from harness.records import ErrorKind, Outcome
from workloads.plan import Json

NS_PER_MS = 1_000_000
# Refusals of a request for what it is; 401 or 429, say, tell nothing of its length.
REFUSALS = frozenset({400, 413, 414, 422})
_OURS = frozenset({ErrorKind.CANCELLED, ErrorKind.HARNESS_DIED})
# Any of these, or the number itself, tells a client what was wrong.
_CLEAR = re.compile(r"\d|context|length|token|too long|too large|maximum|exceed|limit", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request.

    expected: tokens the prompt was made for, None if it was not made for any. right: whether the needle came back,
    None if none was asked for. ttft_ms: None if no token came, or the cache helped.
    """

    request_id: str
    step: str
    part: str
    document: str
    outcome: Outcome
    status: int | None
    message: str
    expected: int | None
    sure: bool
    prompt_tokens: int | None
    completion_tokens: int | None
    max_tokens: int
    right: bool | None
    ttft_ms: float | None
    limit: int | None
    wanted: int | None

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.OK

    @property
    def refused(self) -> bool:
        """Whether the server said no to the prompt, as a client's mistake."""
        return not self.ok and self.status in REFUSALS

    @property
    def broke(self) -> bool:
        """Whether the server itself failed over it."""
        return not self.ok and self.status is not None and self.status >= 500

    @property
    def lost(self) -> bool:
        """Whether nothing came back at all."""
        return not self.ok and (self.status is None or self.status == 200)

    @property
    def clear(self) -> bool:
        """Whether the refusal says why."""
        return _CLEAR.search(self.message) is not None

    def describe(self) -> str:
        """What was sent and what came of it."""
        meant = "" if self.expected is None else f" of {self.expected:,} tokens"
        if self.ok:
            return f"a prompt{meant} was answered, counted as {self.prompt_tokens}"
        how = f"HTTP {self.status}" if self.status is not None else self.outcome.value
        return f"a prompt{meant} ended with {how}: {self.message[:120]}"


def rows_of(answers: Sequence[Answer]) -> list[Row]:
    """Every request in the order of asking, but for those that we gave up ourselves."""
    return [_row(answer) for answer in answers if not _given_up(answer)]


def _given_up(answer: Answer) -> bool:
    error = answer.record.complete.error
    return error is not None and error.kind in _OURS


def _row(answer: Answer) -> Row:
    invoke, done = answer.record.invoke, answer.record.complete
    labels, usage = invoke.labels, done.usage
    value = labels.get("value")
    limit = invoke.parameters.get("max_tokens")
    return Row(
        request_id=invoke.request_id,
        step=str(labels.get("step")),
        part=str(labels.get("part")),
        document=str(invoke.session),
        outcome=done.outcome,
        status=done.http_status if done.error is None else done.error.http_status,
        message="" if done.error is None else done.error.message,
        expected=invoke.expected_prompt_tokens,
        sure=labels.get("sure") is True,
        prompt_tokens=None if usage is None else usage.prompt_tokens,
        completion_tokens=None if usage is None else usage.completion_tokens,
        max_tokens=limit if isinstance(limit, int) else 0,
        right=None if value is None else str(value) in (done.text if done.text is not None else ""),
        ttft_ms=_cold_ttft_ms(answer),
        limit=_whole(labels.get("limit")),
        wanted=_whole(labels.get("wanted")),
    )


def _cold_ttft_ms(answer: Answer) -> float | None:
    done = answer.record.complete
    if done.first_token_ns is None or done.sent_ns is None or (done.usage is not None and done.usage.cached_tokens):
        return None
    return (done.first_token_ns - done.sent_ns) / NS_PER_MS


def _whole(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
