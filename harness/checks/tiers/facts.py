"""From which tier each returned prompt came, as far as the server tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.checks.eviction.arms import AGAIN, HIT, RETURNED
from harness.checks.history import Answer, CheckHistory
from harness.records import CounterSample, Outcome
from workloads.plan import Json

COUNTER = "tier_tokens"
DEVICE = "device"
BEHIND = ("host", "storage")
RETURNS = (RETURNED, AGAIN)


class Source(StrEnum):
    """Who told the tier: the answer itself, the server's counters around it, or nobody."""

    ANSWER = "the answers' own fields"
    COUNTERS = "the server's counters"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """One returned prompt. cached: of its tokens, None if not reported. behind: tokens from behind the device, None if
    nobody told. expected: tokens of the same prompt as a hit of the device, None if it never was one. told: by tier, as
    the answer says; empty if it does not.
    """

    request_id: str
    prompt: str
    arm: str
    round_index: int
    prompt_tokens: int | None
    cached: int | None
    behind: int | None
    expected: int | None
    source: Source
    told: Mapping[str, int]

    @property
    def restored(self) -> bool:
        """Whether some of it came from behind the device."""
        return self.behind is not None and self.behind > 0


def returns_of(history: CheckHistory) -> list[Return]:
    """Every answered return, in the order of asking."""
    expected = _hits(history)
    return [_return(history, answer, expected) for answer in history.answers if is_return(answer)]


def is_return(answer: Answer) -> bool:
    """Whether it is an answered return."""
    return answer.record.invoke.arm in RETURNS and answer.record.complete.outcome is Outcome.OK


def _hits(history: CheckHistory) -> dict[str, int]:
    """Cached tokens of each prompt as a hit of the device."""
    found: dict[str, int] = {}
    for answer in history.answers:
        usage, prompt = answer.record.complete.usage, answer.record.invoke.session
        if answer.record.invoke.arm == HIT and usage is not None and usage.cached_tokens and prompt is not None:
            found[prompt] = max(found.get(prompt, 0), usage.cached_tokens)
    return found


def _return(history: CheckHistory, answer: Answer, expected: Mapping[str, int]) -> Return:
    invoke, done = answer.record.invoke, answer.record.complete
    told = told_tiers(done.extra)
    counted = None if told else _by_counters(history, answer)
    behind = sum(told.get(tier, 0) for tier in BEHIND) if told else counted
    source = Source.ANSWER if told else Source.NOBODY if counted is None else Source.COUNTERS
    prompt = invoke.session if invoke.session is not None else ""
    return Return(
        request_id=invoke.request_id,
        prompt=prompt,
        arm=invoke.arm if invoke.arm is not None else "",
        round_index=int(invoke.cell.rpartition("-r")[2]),
        prompt_tokens=None if done.usage is None else done.usage.prompt_tokens,
        cached=None if done.usage is None else done.usage.cached_tokens,
        behind=behind,
        expected=expected.get(prompt),
        source=source,
        told=told,
    )


def told_tiers(extra: Mapping[str, Json]) -> dict[str, int]:
    """Cached tokens by tier in SGLang's extension of an answer; empty if there are none."""
    extension = extra.get("sglext")
    details = extension.get("cached_tokens_details") if isinstance(extension, Mapping) else None
    if not isinstance(details, Mapping):
        return {}
    return {
        name: value
        for name in (DEVICE, *BEHIND)
        if isinstance(value := details.get(name), int) and not isinstance(value, bool)
    }


def _by_counters(history: CheckHistory, answer: Answer) -> int | None:
    """By how much the counter of the tiers behind moved around one request; None where there is none to read."""
    around = samples_around(history, answer, COUNTER)
    if around is None:
        return None
    first, last = (sample.values[COUNTER] for sample in around)
    return round(last - first) if last >= first else None


def samples_around(history: CheckHistory, answer: Answer, name: str) -> tuple[CounterSample, CounterSample] | None:
    """The last reading of a counter before a request was sent and the first after its end; None if one is missing."""
    sent_ns, end_ns = answer.record.complete.sent_ns, answer.record.complete.end_ns
    if sent_ns is None or end_ns is None:
        return None
    samples = [sample for sample in history.counters if name in sample.values]
    before = [sample for sample in samples if sample.at_ns <= sent_ns]
    after = [sample for sample in samples if sample.at_ns >= end_ns]
    if not before or not after:
        return None
    return max(before, key=lambda sample: sample.at_ns), min(after, key=lambda sample: sample.at_ns)


def source_of(returns: Sequence[Return]) -> Source:
    """The best source of any return."""
    found = {each.source for each in returns}
    return next((source for source in (Source.ANSWER, Source.COUNTERS) if source in found), Source.NOBODY)
