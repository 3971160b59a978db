"""What must hold of every single answer; one that breaks a rule is a finding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.checks.cached_tokens.facts import Row, own_tokens
from harness.checks.verdict import Evidence
from workloads.plan import Json

SALTING_ENGINES = frozenset({"vllm", "sglang"})
# These write 0 where nothing was cached; others may leave the field out then.
ZERO_WRITING_ENGINES = frozenset({"vllm", "sglang", "llama.cpp"})
# Token ids are counted exactly, but prompts of other rounds may begin with the same few; text is an estimate.
EXACT_SLACK = 4
TEXT_SLACK = 24
TEXT_SLACK_SHARE = 0.15

PHANTOM = "K27/K31"
ZERO_OR_ABSENT = "K30"
OVER_REPORT = "K31"
INVALID = "K32"
STREAM_MISMATCH = "K33"
MEANINGS = {
    PHANTOM: "hits where nothing could hit",
    ZERO_OR_ABSENT: "zero, null or absent where a count belongs",
    OVER_REPORT: "more than was reused",
    INVALID: "impossible values",
    STREAM_MISMATCH: "streams and whole answers differ",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken rule with its class of fault; hard: no traffic of others can explain it."""

    fault: str
    evidence: Evidence
    hard: bool = True


def broken_rules(rows: Sequence[Row], engine: str | None) -> list[Violation]:
    """Every rule that needs no other witness than the answers themselves."""
    return [
        *_impossible(rows),
        *_unstable_lengths(rows),
        *_nulls_for_zero(rows, engine),
        *_phantoms(rows, engine),
        *_stream_differences(rows),
        *_changing_usage(rows),
    ]


def _impossible(rows: Sequence[Row]) -> Iterator[Violation]:
    """0 <= cached < prompt: the last token at least has to be computed."""
    for row in rows:
        cached, prompt = row.cached_tokens, row.prompt_tokens
        if cached is None:
            continue
        if cached < 0 or (prompt is not None and cached >= prompt):
            yield _violation(INVALID, [row], f"{cached} cached tokens of {prompt} prompt tokens")
    for row in rows:
        for usage in row.usages:
            reasoning, generated = usage.reasoning_tokens, usage.completion_tokens
            if reasoning is not None and generated is not None and reasoning > generated:
                yield _violation(INVALID, [row], f"{reasoning} reasoning tokens of {generated} generated ones")


def _nulls_for_zero(rows: Sequence[Row], engine: str | None) -> Iterator[Violation]:
    """An engine that reports counts at all reports them always; which answers lack one is listed once."""
    if engine not in ZERO_WRITING_ENGINES:
        return
    for stream in (True, False):
        alike = [row for row in rows if row.stream is stream]
        silent = [row for row in alike if row.cached_tokens is None]
        if silent and len(silent) < len(alike):
            text = (
                f"{len(silent)} of {len(alike)} {'streamed' if stream else 'whole'} answers do not report cached tokens"
            )
            yield _violation(ZERO_OR_ABSENT, silent, text)


def _unstable_lengths(rows: Sequence[Row]) -> Iterator[Violation]:
    """The same prompt has the same length whenever it is asked."""
    by_prompt: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.prompt_hash is not None and row.prompt_tokens is not None:
            by_prompt[row.prompt_hash].append(row)
    for same in by_prompt.values():
        lengths = sorted({row.prompt_tokens for row in same if row.prompt_tokens is not None})
        if len(lengths) > 1:
            yield _violation(INVALID, same, f"one prompt, counted as {' and '.join(map(str, lengths))} tokens")


def _phantoms(rows: Sequence[Row], engine: str | None) -> Iterator[Violation]:
    """Nothing is cached beyond what was sent before, and nothing under a fresh salt where salts are honoured."""
    around = own_tokens(rows)
    for row in rows:
        cached = row.cached_tokens
        if cached is None:
            continue
        if row.arm == "salted":
            if cached > 0 and engine in SALTING_ENGINES:
                yield _violation(PHANTOM, [row], f"{cached} cached tokens under a salt that was never used before")
        elif cached > (allowed := row.may_hit + around + _slack(row)):
            shared = f"only {row.may_hit} were ever sent before" if row.may_hit else "nothing like it was sent before"
            text = f"{cached} cached tokens, but {shared}"
            fault = PHANTOM if row.arm == "twin" else OVER_REPORT
            yield _violation(fault, [row], text, allowed=allowed)


def _slack(row: Row) -> int:
    return EXACT_SLACK if row.exact else TEXT_SLACK + round(TEXT_SLACK_SHARE * row.may_hit)


def _stream_differences(rows: Sequence[Row]) -> Iterator[Violation]:
    """The same well-known prompt counts the same, streamed and whole; counts that overlap at all are let go."""
    by_name: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.arm == "stream":
            by_name[row.name].append(row)
    for same in by_name.values():
        streamed = [row for row in same if row.stream]
        whole = [row for row in same if not row.stream]
        if len(streamed) < 2 or len(whole) < 2:
            continue
        for what, values in (("cached", "cached_tokens"), ("prompt", "prompt_tokens")):
            in_streams = {getattr(row, values) for row in streamed}
            in_whole = {getattr(row, values) for row in whole}
            if not in_streams & in_whole:
                text = f"{what} tokens {_listed(in_streams)} in streams, {_listed(in_whole)} in whole answers"
                hard = values == "prompt_tokens" or None in in_streams | in_whole
                yield replace(_violation(STREAM_MISMATCH, same, text), hard=hard)


def _changing_usage(rows: Sequence[Row]) -> Iterator[Violation]:
    """Usage that comes again and again in one stream keeps telling the same length of the prompt."""
    for row in rows:
        lengths = sorted({usage.prompt_tokens for usage in row.usages if usage.prompt_tokens is not None})
        if len(lengths) > 1:
            text = f"one stream says {' and '.join(map(str, lengths))} prompt tokens"
            yield _violation(STREAM_MISMATCH, [row], text)


def _listed(values: set[int | None]) -> str:
    known = sorted(str(value) for value in values if value is not None)
    return ", ".join([*known, *(["not reported"] if None in values else [])])


def _violation(fault: str, rows: Sequence[Row], text: str, **table: int) -> Violation:
    ids = tuple(row.request_id for row in rows)
    first = rows[0]
    facts: dict[str, Json] = {
        "name": first.name,
        "sighting": first.sighting,
        "prompt_tokens": [row.prompt_tokens for row in rows],
        "cached_tokens": [row.cached_tokens for row in rows],
        "may_hit": first.may_hit,
        **table,
    }
    return Violation(fault=fault, evidence=Evidence(request_ids=ids, text=f"{first.name}: {text}", table=facts))
