"""Answers that no sound model gives: not a number, impossible probabilities, broken characters, one token on and on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from itertools import groupby

from harness.checks.history import Answer
from harness.records import TokenLogprob

REPLACEMENT = "\ufffd"
# Rounding of log-probabilities to three digits moves a sum over twenty of them by less than this.
PROBABILITY_SLACK = 0.02
FEWEST_CHARS = 8
BROKEN_SHARE = 0.3
LONGEST_RUN = 12
RUN_SHARE = 0.9


class Garbage(StrEnum):
    """NOT_A_NUMBER, IMPOSSIBLE: never right. The others a small model may come to by itself, though not everywhere."""

    NOT_A_NUMBER = "a log-probability is not a number"
    IMPOSSIBLE = "probabilities above 1"
    BROKEN_TEXT = "broken characters"
    ONE_TOKEN = "one token again and again"
    EMPTY = "nothing before the end token"


CERTAIN = frozenset({Garbage.NOT_A_NUMBER, Garbage.IMPOSSIBLE})


def garbage(answer: Answer) -> Garbage | None:
    """The gravest sign of degenerate output; None for an answer that shows none, or has nothing to show."""
    logprobs = answer.logprobs if answer.logprobs is not None else ()
    if any(_not_a_number(position) for position in logprobs):
        return Garbage.NOT_A_NUMBER
    if any(_impossible(position) for position in logprobs):
        return Garbage.IMPOSSIBLE
    if _empty(answer):
        return Garbage.EMPTY
    text = answer.record.complete.text
    # A character cut by the token limit is no fault.
    body = "" if text is None else text.rstrip(REPLACEMENT)
    if len(body) >= FEWEST_CHARS and body.count(REPLACEMENT) > BROKEN_SHARE * len(body):
        return Garbage.BROKEN_TEXT
    return Garbage.ONE_TOKEN if _one_token(_units(answer, logprobs, body)) else None


def numberless(answers: Sequence[Answer]) -> list[Answer]:
    """Answers with a token without a log-probability, where other answers have one for every token: NaN, left out."""
    without = [answer for answer in answers if any(position.logprob is None for position in answer.logprobs or ())]
    return without if any(answer.logprobs and answer not in without for answer in answers) else []


def repeated_token(answer: Answer) -> str | None:
    """The token (or character, where tokens are not known) that an answer repeats; nothing, for an empty one."""
    if _empty(answer):
        return ""
    text = answer.record.complete.text
    units = _units(answer, answer.logprobs if answer.logprobs is not None else (), "" if text is None else text)
    return str(units[-1]) if _one_token(units) else None


def _empty(answer: Answer) -> bool:
    """Whether the model ended at once; an answer of reasoning or tool calls has no text either."""
    done = answer.record.complete
    said = (done.text, done.reasoning, done.tool_calls)
    return done.finish_reason == "stop" and not any(said) and done.output_tokens in (0, 1)


def _not_a_number(position: TokenLogprob) -> bool:
    """A null among alternatives that were given counts: servers write NaN as null."""
    values = [value for _, value in position.top]
    if position.logprob is None:
        return bool(values)
    return math.isnan(position.logprob) or any(math.isnan(value) for value in values)


def _impossible(position: TokenLogprob) -> bool:
    if position.logprob is not None and position.logprob > PROBABILITY_SLACK:
        return True
    return sum(math.exp(min(value, 1.0)) for _, value in position.top) > 1 + PROBABILITY_SLACK


def _units(answer: Answer, logprobs: Sequence[TokenLogprob], text: str) -> Sequence[int | str]:
    """Token ids, or token texts, or the characters of the text."""
    if answer.token_ids is not None:
        return answer.token_ids
    return [position.token for position in logprobs] if logprobs else text


def _one_token(units: Sequence[int | str]) -> bool:
    longest = max((sum(1 for _ in run) for _, run in groupby(units)), default=0)
    return longest >= max(LONGEST_RUN, RUN_SHARE * len(units))
