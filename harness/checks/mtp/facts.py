"""The answers of the check as rows, each with the accounts of its drafts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.checks.history import Answer, CheckHistory
from harness.records import CounterSample, Outcome
from harness.stats.drafts import Drafts, counted_drafts, drafts_of

# Tokens per event beyond this are several steps put together, whatever the number of drafts.
MOST_TOKENS_PER_STEP = 9.0
FEWEST_EVENTS = 3
# Engines whose pages of counters count drafts whenever they draft.
DRAFTS_ARE_COUNTED = frozenset({"vllm", "llama.cpp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One answered request.

    own: the answer's own account. counted: what the counters moved by while it was alone. events: worked out from the
    tokens of its events. Each is None if there is none. sent_ns, end_ns: None if never sent.
    """

    request_id: str
    content: str
    arm: str
    pair: str
    round_index: int
    completion_tokens: int | None
    prompt_tokens: int | None
    cached_tokens: int | None
    prompt_hash: str | None
    sent_ns: int | None
    end_ns: int | None
    own: Drafts | None = None
    counted: Drafts | None = None
    events: Drafts | None = None

    @property
    def drafts(self) -> Drafts | None:
        """The best account: counters, then the answer's own, then events."""
        return next((each for each in (self.counted, self.own, self.events) if each is not None), None)

    @property
    def histogram(self) -> tuple[int, ...] | None:
        """Steps by number of accepted drafts, by the counters or the answer's own fields; None if neither tells."""
        accounts = (self.counted, self.own)
        return next((each.histogram for each in accounts if each is not None and each.histogram is not None), None)

    @property
    def source(self) -> str | None:
        """Where `drafts` comes from; None if there is none."""
        names = {"counters": self.counted, "the answers' own fields": self.own, "stream events": self.events}
        return next((name for name, account in names.items() if account is not None), None)


def rows_of(history: CheckHistory) -> list[Row]:
    """Every request that was answered, with what the counters say of it."""
    answered = [answer for answer in history.answers if answer.record.complete.outcome is Outcome.OK]
    samples = sorted(history.counters, key=lambda sample: sample.at_ns)
    times, undrafted = [sample.at_ns for sample in samples], _counts_no_drafts(history)
    rows = [_row(answer, _window(answer, samples, times)) for answer in answered]
    return [replace(row, events=None) for row in rows] if undrafted else rows


def _counts_no_drafts(history: CheckHistory) -> bool:
    """Whether the server would count drafts and has no counter of them: events of several tokens are then no drafts,
    but characters whose bytes came one by one."""
    counted = [sample.values for sample in history.counters if "generation_tokens" in sample.values]
    engine = history.capabilities.engine
    return engine in DRAFTS_ARE_COUNTED and bool(counted) and not any("spec_drafts" in values for values in counted)


def _row(answer: Answer, window: tuple[CounterSample, CounterSample] | None) -> Row:
    invoke, done = answer.record.invoke, answer.record.complete
    tail = invoke.cell.rpartition("-r")[2]
    completion = None if done.usage is None else done.usage.completion_tokens
    return Row(
        request_id=invoke.request_id,
        content=str(invoke.labels.get("content")),
        arm=str(invoke.labels.get("arm")),
        pair=str(invoke.labels.get("pair")),
        round_index=int(tail) if tail.isdigit() else 0,
        completion_tokens=completion,
        prompt_tokens=None if done.usage is None else done.usage.prompt_tokens,
        cached_tokens=None if done.usage is None else done.usage.cached_tokens,
        prompt_hash=invoke.prompt_hash,
        sent_ns=done.sent_ns,
        end_ns=done.end_ns,
        own=drafts_of(done.extra, completion),
        counted=None if window is None or completion is None else _counted(*window, completion),
        events=_by_events(answer),
    )


def _window(
    answer: Answer, samples: Sequence[CounterSample], times: Sequence[int]
) -> tuple[CounterSample, CounterSample] | None:
    """The samples around a request; None without one on either side."""
    done = answer.record.complete
    if done.sent_ns is None or done.end_ns is None:
        return None
    before, after = bisect_right(times, done.sent_ns) - 1, bisect_left(times, done.end_ns)
    return (samples[before], samples[after]) if before >= 0 and after < len(samples) else None


def _counted(before: CounterSample, after: CounterSample, completion: int) -> Drafts | None:
    """Only where the counters saw exactly this answer's tokens, all of them and nobody else's."""
    generated: Mapping[str, float] = after.values
    if "generation_tokens" not in generated or "generation_tokens" not in before.values:
        return None
    if round(generated["generation_tokens"] - before.values["generation_tokens"]) != completion:
        return None
    found = counted_drafts(before.values, after.values, answers=1)
    return found if found is not None and (found.steps > 0 or found.accepted > 0) else None


def _by_events(answer: Answer) -> Drafts | None:
    """Each event after the first is a step; None where events hold a single token each or several steps."""
    tokens = answer.record.complete.event_tokens
    if tokens is None or len(tokens) < FEWEST_EVENTS:
        return None
    later = tokens[1:]
    mean = sum(later) / len(later)
    if max(later) == 1 or mean > MOST_TOKENS_PER_STEP:
        return None
    return Drafts(steps=len(later), accepted=sum(later) - len(later), inferred=True)
