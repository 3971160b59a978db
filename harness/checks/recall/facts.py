"""The answers of the check: what was asked of which document, how it was served, and whether it was right."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from harness.checks.history import Answer, CheckHistory
from harness.records import Outcome
from workloads.control import CONTROL
from workloads.plan import Json
from workloads.recall import COLD, HIT, REFILLED, RETURNED

ARMS = (HIT, RETURNED, REFILLED)
# A hit's first token comes in less than this share of the cold one's time, if the clock is to be a witness of it.
WARM_TTFT_RATIO = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One answered question.

    begin, end: of the needle's last statement, as shares of the text. served: whether it came from the cache, None if
    nothing tells. cached, prompt_tokens: None if not reported.
    """

    request_id: str
    round_index: int
    document: str
    needle: int
    arm: str
    kind: str
    asked: str
    value: str
    text: str
    right: bool
    begin: float
    end: float
    digits: int
    prompt_tokens: int | None
    cached: int | None
    served: bool | None

    @property
    def exercised(self) -> bool:
        """Whether the arm is what it is called: served from the cache as far as its needle, or surely not at all."""
        if self.arm == RETURNED:
            return self.cached == 0 or (self.cached is None and self.served is False)
        return self.served is True and not self.behind

    @property
    def behind(self) -> bool:
        """Whether the needle stands behind everything that the cache gave."""
        at = self.begin_tokens
        return self.cached is not None and at is not None and self.cached <= at

    @property
    def begin_tokens(self) -> float | None:
        """About where the needle begins, in tokens; None without a count."""
        return None if self.prompt_tokens is None else self.begin * self.prompt_tokens

    @property
    def resume_distance(self) -> float | None:
        """Tokens between the end of what the cache gave and the nearer edge of the needle, 0 if that cuts it."""
        if self.cached is None or self.prompt_tokens is None:
            return None
        first, last = self.begin * self.prompt_tokens, self.end * self.prompt_tokens
        return max(0.0, first - self.cached, self.cached - last)


def rows_of(history: CheckHistory) -> list[Row]:
    """Every answered question, in the order of asking; floods are left out."""
    answers = [answer for answer in history.answers if _counts(answer)]
    colds = _cold_times(answers)
    return [_row(answer, colds.get(str(answer.record.invoke.session))) for answer in answers]


def _counts(answer: Answer) -> bool:
    known = (CONTROL, COLD, *ARMS)
    return answer.record.complete.outcome is Outcome.OK and answer.record.invoke.arm in known


def _cold_times(answers: Sequence[Answer]) -> dict[str, float]:
    """Median time to the first token of each document's colds, in ns."""
    found: dict[str, list[int]] = {}
    for answer in answers:
        time_ns = _ttft_ns(answer)
        if answer.record.invoke.arm == COLD and time_ns is not None:
            found.setdefault(str(answer.record.invoke.session), []).append(time_ns)
    return {name: float(median(times)) for name, times in found.items()}


def _ttft_ns(answer: Answer) -> int | None:
    done = answer.record.complete
    return None if done.first_token_ns is None or done.sent_ns is None else done.first_token_ns - done.sent_ns


def _row(answer: Answer, cold_ns: float | None) -> Row:
    invoke, done = answer.record.invoke, answer.record.complete
    labels, usage = invoke.labels, done.usage
    cached = None if usage is None else usage.cached_tokens
    text = done.text if done.text is not None else ""
    return Row(
        request_id=invoke.request_id,
        round_index=int(invoke.cell.rpartition("-r")[2]),
        document=str(labels.get("document")),
        needle=_whole(labels.get("needle")),
        arm=str(invoke.arm),
        kind=str(labels.get("kind")),
        asked=str(labels.get("asked")),
        value=str(labels.get("value")),
        text=text,
        right=_right(text, labels),
        begin=_share(labels.get("begin")),
        end=_share(labels.get("end")),
        digits=_whole(labels.get("digits")),
        prompt_tokens=None if usage is None else usage.prompt_tokens,
        cached=cached,
        served=_served(cached, _ttft_ns(answer), cold_ns),
    )


def _served(cached: int | None, ttft_ns: int | None, cold_ns: float | None) -> bool | None:
    """By the server's count; where there is none, by the clock."""
    if cached is not None:
        return cached > 0
    return None if ttft_ns is None or cold_ns is None else ttft_ns < WARM_TTFT_RATIO * cold_ns


def _right(text: str, labels: Mapping[str, Json]) -> bool:
    """Whether the value stands in the answer as a whole word, and nothing that was true before stands ahead of it."""
    found = re.search(rf"(?<![\w]){re.escape(str(labels.get('value')))}(?![\w])", text.lower())
    stale = labels.get("stale")
    older = [str(each) for each in stale] if isinstance(stale, Sequence) and not isinstance(stale, str) else []
    return found is not None and not any(each in text[: found.start()] for each in older)


def _whole(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _share(value: Json) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
