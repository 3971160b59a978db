"""The history sorted by prompt and arm, and whether each answer really came from the cache."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from harness.checks.cached_tokens.counting import counter_witness
from harness.checks.cached_tokens.facts import rows_of
from harness.checks.history import Answer, CheckHistory
from harness.records import Outcome, TokenLogprob
from workloads.plan import Json

VIRGIN, TRAFFIC_COLD, HIT, TRAFFIC_HIT, FAR = "virgin", "cotraffic-cold", "hit", "cotraffic-hit", "far"
RETURNED, REFILLED, DECODED, AGAIN = "returned", "refilled", "refilled-decode", "returned-again"
TOGETHER, FORKED = "refilled-together", "refilled-fork"
PARTIAL, SENTINEL, SHORT, STEPPED = "partial", "sentinel", "short", "stepped"
JUDGED = (HIT, TRAFFIC_HIT, RETURNED, REFILLED, DECODED, TOGETHER, FORKED, AGAIN, PARTIAL, SENTINEL)
COLD_MEANT = (VIRGIN, TRAFFIC_COLD, SHORT, STEPPED)
WARM_MEANT = (HIT, TRAFFIC_HIT, FAR, REFILLED, DECODED, TOGETHER)
WARM_TTFT_RATIO = 0.7
"""A hit's first token comes in less than this share of the cold one's time, if the clock is to be a witness of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One answered request of one arm.

    cached: prompt tokens that the server says it skipped, None if it does not say. warm: whether the answer came from
    the cache, by two of three witnesses; None if they do not tell. ttft_ns: None if no token came.
    """

    request_id: str
    arm: str
    prompt_tokens: int | None
    cached: int | None
    warm: bool | None
    logprobs: tuple[TokenLogprob, ...]
    text: str
    ttft_ns: int | None
    labels: Mapping[str, Json]

    @property
    def distance(self) -> int | None:
        """Tokens from the resume point to the first answered position; None if the server does not tell."""
        return None if self.cached is None or self.prompt_tokens is None else self.prompt_tokens - self.cached


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptArms:
    """Everything asked of one prompt; `round_index` 0 is the first look, later ones confirm. `code`: its own canary.

    aligned: a cold run is known to begin a piece of its prefill at the resume point. stepped: the answer of the arm of
    that name computed the prompt's last token in a step of its own.
    """

    prompt: str
    round_index: int
    code: str | None
    needle: bool
    aligned: bool
    stepped: bool
    shots: Mapping[str, tuple[Shot, ...]]

    def of(self, arm: str) -> tuple[Shot, ...]:
        """Shots of one arm in the order they were asked; empty if there are none."""
        return self.shots.get(arm, ())


def sort_by_prompt(history: CheckHistory) -> tuple[PromptArms, ...]:
    """The answered requests that belong to a prompt of the plan; unanswered ones and floods are left out."""
    answers = [answer for answer in history.answers if _counts(answer)]
    ttfts = _ttft_by_prompt(answers)
    counted = counter_witness(rows_of(history), history.counters).cached
    grouped: dict[str, list[Shot]] = {}
    labels: dict[str, Mapping[str, Json]] = {}
    for answer in answers:
        prompt = answer.record.invoke.session
        assert prompt is not None
        labels.setdefault(prompt, answer.record.invoke.labels)
        grouped.setdefault(prompt, []).append(_shot(answer, ttfts.get(prompt), counted))
    return tuple(_prompt(prompt, labels[prompt], shots) for prompt, shots in grouped.items())


def _counts(answer: Answer) -> bool:
    invoke, complete = answer.record.invoke, answer.record.complete
    known = (*JUDGED, *COLD_MEANT, FAR)
    return complete.outcome is Outcome.OK and invoke.session is not None and invoke.arm in known


def _prompt(prompt: str, labels: Mapping[str, Json], shots: Sequence[Shot]) -> PromptArms:
    arms: dict[str, list[Shot]] = {}
    for shot in shots:
        arms.setdefault(shot.arm, []).append(shot)
    code, round_index = labels.get("code"), labels.get("round")
    return PromptArms(
        prompt=prompt,
        round_index=round_index if isinstance(round_index, int) else 0,
        code=code if isinstance(code, str) else None,
        needle=labels.get("needle") is True,
        aligned=labels.get("aligned") is True,
        stepped=any(shot.labels.get("stepped") is True for shot in shots),
        shots={arm: tuple(items) for arm, items in arms.items()},
    )


def _shot(answer: Answer, cold_ttft_ns: float | None, counted: Mapping[str, int]) -> Shot:
    invoke, complete = answer.record.invoke, answer.record.complete
    usage, ttft_ns = complete.usage, ttft(answer)
    cached = None if usage is None else usage.cached_tokens
    assert invoke.arm is not None
    return Shot(
        request_id=invoke.request_id,
        arm=invoke.arm,
        prompt_tokens=None if usage is None else usage.prompt_tokens,
        cached=cached,
        warm=is_warm(invoke.arm, cached, _quick(ttft_ns, cold_ttft_ns), counted.get(invoke.request_id)),
        logprobs=answer.logprobs if answer.logprobs is not None else (),
        text=complete.text if complete.text is not None else "",
        ttft_ns=ttft_ns,
        labels=invoke.labels,
    )


def ttft(answer: Answer) -> int | None:
    """Time to the first token in ns, None if there was none."""
    complete = answer.record.complete
    if complete.first_token_ns is None or complete.sent_ns is None:
        return None
    return complete.first_token_ns - complete.sent_ns


def is_warm(arm: str, cached: int | None, quick: bool | None, counted: int | None = None) -> bool | None:
    """Whether an answer came from the cache, by what the server said of it, its counters and the clock.

    cached / counted: tokens that usage / the counters say were skipped. A count of nothing in usage is overruled by two
    of: the counters, the clock, what the plan meant (counts that are lost); one that says "cached" is believed, for a
    false one is judged as the hit that it claims to be. None if they do not tell.
    """
    if cached is not None and cached > 0:
        return True
    against = (counted is not None and counted > 0) + (quick is True) + (arm in WARM_MEANT)
    if against >= 2 and not (counted == 0 and cached == 0):
        return True
    if cached == 0:
        return False
    return False if arm in COLD_MEANT and quick is not True else None


def _quick(ttft_ns: int | None, cold_ttft_ns: float | None) -> bool | None:
    if ttft_ns is None or not cold_ttft_ns:
        return None
    return math.log(max(ttft_ns, 1) / cold_ttft_ns) < math.log(WARM_TTFT_RATIO)


def _ttft_by_prompt(answers: Iterable[Answer]) -> dict[str, float]:
    """Median TTFT of each prompt's first colds, in ns."""
    found: dict[str, list[int]] = {}
    for answer in answers:
        time_ns, prompt = ttft(answer), answer.record.invoke.session
        if answer.record.invoke.arm == VIRGIN and time_ns is not None and prompt is not None:
            found.setdefault(prompt, []).append(time_ns)
    return {prompt: float(median(times)) for prompt, times in found.items()}
