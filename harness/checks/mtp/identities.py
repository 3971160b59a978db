"""What must add up whatever the content: one broken identity is a finding (K26)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.checks.mtp.facts import Row
from harness.checks.verdict import Evidence
from harness.records import CounterSample
from harness.stats.drafts import Drafts
from workloads.mtp import WATCHED
from workloads.plan import Json

# An answer has a token from its prompt and one from each step beside its accepted drafts, but for a draft that ends it.
LARGEST_EXCESS = 1
FEWEST_TOKENS_SEEN = 8
FEWEST_LOOKS = 2
# Counts verify steps when a request ends, by design.
COUNTS_AT_THE_END = frozenset({"sglang"})
# Count the drafts that a step accepted before they look for the end of the answer among them.
COUNTS_WHOLE_LAST_STEP = frozenset({"vllm"})
PAST_THE_END = "counted past the end"
# Drafts of one step where the server does not say how many it makes.
MOST_DRAFTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """One broken identity; `rule` names it. custom: what the engine is known to do everywhere."""

    rule: str
    evidence: Evidence
    custom: bool = False


def broken_identities(rows: Sequence[Row], counters: Sequence[CounterSample], engine: str | None) -> list[Broken]:
    """Every identity that any account breaks."""
    found = [each for row in rows for each in _of_row(row, engine)]
    if engine not in COUNTS_AT_THE_END:
        found += _counted_late(rows, counters)
    return found


def _of_row(row: Row, engine: str | None) -> Iterator[Broken]:
    for source, account in (("its own fields", row.own), ("the counters", row.counted)):
        if account is not None:
            yield from _of_account(row, source, account)
            yield from _past_the_end(row, source, account, engine)
    if row.own is not None and row.counted is not None and not row.own.inferred:
        same = (row.own.steps, row.own.accepted) == (row.counted.steps, row.counted.accepted)
        if not same:
            text = (
                f"{row.own.steps} steps with {row.own.accepted} accepted by its own fields,"
                f" {row.counted.steps} with {row.counted.accepted} by the counters"
            )
            yield _broken("two accounts", row, text, row.own)


def _of_account(row: Row, source: str, account: Drafts) -> Iterator[Broken]:
    accepted, drafted, depth = account.accepted, account.drafted, account.depth
    if accepted < 0 or account.steps < 0:
        yield _broken("range", row, f"{account.steps} steps, {accepted} accepted by {source}", account)
        return
    if drafted is not None and accepted > drafted:
        yield _broken("range", row, f"{accepted} accepted of {drafted} drafted by {source}", account)
    if depth is not None and accepted > depth * account.steps:
        text = f"{accepted} accepted in {account.steps} steps of at most {depth} drafts by {source}"
        yield _broken("acceptance length above k + 1", row, text, account)
    if account.histogram is not None and account.histogram:
        weighted = sum(number * count for number, count in enumerate(account.histogram))
        if sum(account.histogram) != account.steps or weighted != accepted:
            text = f"the histogram {list(account.histogram)} is not {account.steps} steps with {accepted} accepted"
            yield _broken("histogram", row, text, account)


def _past_the_end(row: Row, source: str, account: Drafts, engine: str | None) -> Iterator[Broken]:
    """Drafts that are no part of the answer; those of one step are an engine's custom where it is known for it."""
    if row.completion_tokens is None or account.inferred:
        return
    excess = 1 + account.steps + account.accepted - row.completion_tokens
    if excess <= LARGEST_EXCESS:
        return
    text = (
        f"1 + {account.steps} steps + {account.accepted} accepted by {source} is {excess} more than the"
        f" {row.completion_tokens} tokens of the answer"
    )
    depth = account.depth if account.depth is not None else MOST_DRAFTS
    custom = engine in COUNTS_WHOLE_LAST_STEP and excess <= LARGEST_EXCESS + depth
    yield replace(_broken(PAST_THE_END, row, text, account), custom=custom)


def _counted_late(rows: Sequence[Row], counters: Sequence[CounterSample]) -> Iterator[Broken]:
    """Tokens were seen to come while the drafts behind them were not counted until the end."""
    samples = sorted((each for each in counters if _complete(each)), key=lambda sample: sample.at_ns)
    for row in rows:
        if row.arm != WATCHED or row.sent_ns is None or row.end_ns is None:
            continue
        before = [sample for sample in samples if sample.at_ns <= row.sent_ns][-1:]
        during = [sample for sample in samples if row.sent_ns < sample.at_ns < row.end_ns]
        after = [sample for sample in samples if sample.at_ns >= row.end_ns][:1]
        if not before or not after:
            continue
        start = before[0].values
        grown = [
            sample.values
            for sample in during
            if sample.values["generation_tokens"] - start["generation_tokens"] >= FEWEST_TOKENS_SEEN
        ]
        still = all(values["spec_drafts"] == start["spec_drafts"] for values in grown)
        if len(grown) >= FEWEST_LOOKS and still and after[0].values["spec_drafts"] > start["spec_drafts"]:
            tokens = round(grown[-1]["generation_tokens"] - start["generation_tokens"])
            text = f"{tokens} tokens had come, but none of the steps behind them was counted before the answer ended"
            yield _broken("counted late", row, text, None)


def _complete(sample: CounterSample) -> bool:
    return {"generation_tokens", "spec_drafts"} <= sample.values.keys()


def _broken(rule: str, row: Row, text: str, account: Drafts | None) -> Broken:
    table: dict[str, Json] = {"content": row.content, "arm": row.arm, "completion_tokens": row.completion_tokens}
    if account is not None:
        table |= {"steps": account.steps, "accepted": account.accepted, "drafted": account.drafted}
    return Broken(rule=rule, evidence=Evidence(request_ids=(row.request_id,), text=f"{row.pair}: {text}", table=table))
