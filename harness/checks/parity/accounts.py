"""What two servers counted for the same requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.checks.history import Answer
from harness.checks.verdict import Evidence
from harness.records import Outcome
from workloads.parity import HIT

FEWEST = 8
FEWEST_CONTRADICTIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """failures: counts that cannot both be right. doubts: counts that one server gives and the other does not.

    offset: tokens by which the other server's prompts are longer, the same for all; None if nothing could be compared.
    texts: prompts whose cold texts could be compared, alike: those that are the same.
    """

    failures: tuple[Evidence, ...]
    doubts: tuple[str, ...]
    offset: int | None
    compared: int


def compare_accounts(here: Sequence[Answer], there: Sequence[Answer]) -> Accounts:
    """Requests with the same key, answered by both."""
    others = {answer.record.invoke.key: answer for answer in there if _ok(answer)}
    twos = [
        (answer, others[answer.record.invoke.key])
        for answer in here
        if _ok(answer) and answer.record.invoke.key in others
    ]
    offsets = [
        (theirs - mine, one, other)
        for one, other in twos
        if (mine := _prompt_tokens(one)) is not None and (theirs := _prompt_tokens(other)) is not None
    ]
    usual = sorted(offset for offset, _, _ in offsets)[len(offsets) // 2] if offsets else None
    failures = [
        *(_prompt_differs(one, other, offset, usual) for offset, one, other in offsets if offset != usual),
        *_completions(twos),
        *_impossible([*here, *there]),
    ]
    return Accounts(failures=tuple(failures), doubts=tuple(_reports(twos)), offset=usual, compared=len(twos))


def _ok(answer: Answer) -> bool:
    return answer.record.complete.outcome is Outcome.OK


def _prompt_tokens(answer: Answer) -> int | None:
    usage = answer.record.complete.usage
    return None if usage is None else usage.prompt_tokens


def _cached(answer: Answer) -> int | None:
    usage = answer.record.complete.usage
    return None if usage is None else usage.cached_tokens


def _ids(*answers: Answer) -> tuple[str, ...]:
    return tuple(answer.record.invoke.request_id for answer in answers)


def _prompt_differs(one: Answer, other: Answer, offset: int, usual: int | None) -> Evidence:
    text = (
        f"{one.record.invoke.key}: {_prompt_tokens(one)} prompt tokens here, {_prompt_tokens(other)} there:"
        f" {offset} apart, where others are {usual} apart"
    )
    return Evidence(request_ids=_ids(one, other), text=text)


def _completions(twos: Sequence[tuple[Answer, Answer]]) -> list[Evidence]:
    """The same text of the same ending, counted otherwise; a single one may be a token that shows no text."""
    found = []
    for one, other in twos:
        mine, theirs = one.record.complete, other.record.complete
        if mine.usage is None or theirs.usage is None or not mine.text:
            continue
        counts = mine.usage.completion_tokens, theirs.usage.completion_tokens
        alike = mine.text == theirs.text and mine.finish_reason == theirs.finish_reason
        if alike and None not in counts and counts[0] != counts[1]:
            text = f"{one.record.invoke.key}: the same text is {counts[0]} tokens here and {counts[1]} there"
            found.append(Evidence(request_ids=_ids(one, other), text=text))
    return found if len(found) >= FEWEST_CONTRADICTIONS else []


def _impossible(answers: Sequence[Answer]) -> Iterator[Evidence]:
    for answer in answers:
        cached, prompt = _cached(answer), _prompt_tokens(answer)
        if cached is not None and prompt is not None and not 0 <= cached < prompt:
            text = f"{answer.record.invoke.key}: {cached} cached tokens of a prompt of {prompt}"
            yield Evidence(request_ids=_ids(answer), text=text)


def _reports(twos: Sequence[tuple[Answer, Answer]]) -> Iterator[str]:
    """Hits that only one of the servers reports."""
    hits = [(_cached(one), _cached(other)) for one, other in twos if one.record.invoke.arm == HIT]
    if len(hits) < FEWEST:
        return
    for index, (mine, theirs) in enumerate((("this server", "the other"), ("the other server", "this one"))):
        reported = [pair for pair in hits if pair[index]]
        silent = [pair for pair in reported if not pair[1 - index]]
        if len(reported) >= FEWEST and len(silent) == len(reported):
            yield f"{mine} reports cached tokens for {len(reported)} hits, {theirs} for none of them"
