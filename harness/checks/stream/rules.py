"""Rules that one answer alone can break: its framing, its counts, its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.checks.history import Answer
from harness.checks.stream.facts import Violation, violation

FRAMING = "framing"
COUNTS = "counts"
ENDS = "ends"
# The end token is counted by some servers and shown by none, or the other way round.
COUNT_SLACK = 1
MERGES_TOKENS = frozenset({"llama.cpp"})


def broken_rules(answers: Sequence[Answer], engine: str | None) -> Iterator[Violation]:
    """Every rule that an answer breaks by itself."""
    for answer in answers:
        yield from _framing(answer)
        yield from _counts(answer, engine)
        yield from _usages(answer)
        yield from _end(answer)


def _framing(answer: Answer) -> Iterator[Violation]:
    """One finish reason, nothing generated after it, one end marker, nothing after that."""
    framing = answer.framing
    if framing is None:
        return
    if len(framing.finish_reasons) != 1:
        reasons = ", ".join(framing.finish_reasons)
        yield violation(FRAMING, [answer], f"{len(framing.finish_reasons)} finish reasons in one stream ({reasons})")
    if framing.texts_after_finish:
        yield violation(FRAMING, [answer], f"{framing.texts_after_finish} events with text after the finish reason")
    if framing.done_markers != 1:
        yield violation(FRAMING, [answer], f"{framing.done_markers} [DONE] markers in one stream")
    if framing.events_after_done:
        yield violation(FRAMING, [answer], f"{framing.events_after_done} events after [DONE]")
    if answer.record.complete.unparsed_events:
        count = answer.record.complete.unparsed_events
        yield violation(FRAMING, [answer], f"{count} events that are no JSON objects")


def _counts(answer: Answer, engine: str | None) -> Iterator[Violation]:
    """Tokens in usage against token ids and log-probabilities of the same answer."""
    done = answer.record.complete
    counted = None if done.usage is None else done.usage.completion_tokens
    if counted is None:
        return
    reasoning = None if done.usage is None else done.usage.reasoning_tokens
    if reasoning is not None and reasoning > counted:
        yield violation(COUNTS, [answer], f"{reasoning} reasoning tokens of {counted} completion tokens")
    if done.reasoning is not None or done.tool_calls:
        return
    shown = {"token ids": answer.token_ids, "log-probabilities": answer.logprobs}
    for what, values in shown.items():
        if values is None or engine in MERGES_TOKENS:
            continue
        if abs(len(values) - counted) > COUNT_SLACK:
            text = f"usage counts {counted} tokens, {len(values)} {what} came"
            yield violation(COUNTS, [answer], text, completion_tokens=counted, shown=len(values))
    limit = answer.record.invoke.labels.get("max_tokens")
    if isinstance(limit, int) and counted > limit:
        yield violation(COUNTS, [answer], f"{counted} tokens, {limit} were allowed", completion_tokens=counted)


def _usages(answer: Answer) -> Iterator[Violation]:
    """Usage in several events: the prompt keeps its length, the answer only grows, and the last one says all."""
    usages = answer.usages
    if not usages:
        return
    prompts = {usage.prompt_tokens for usage in usages if usage.prompt_tokens is not None}
    if len(prompts) > 1:
        listed = ", ".join(map(str, sorted(prompts)))
        yield violation(COUNTS, [answer], f"one prompt is counted as {listed} tokens in one stream")
    grown = [usage.completion_tokens for usage in usages if usage.completion_tokens is not None]
    if grown != sorted(grown):
        yield violation(COUNTS, [answer], f"completion tokens run backwards in one stream: {grown}")
    if prompts and grown and not any(u.prompt_tokens is not None and u.completion_tokens == grown[-1] for u in usages):
        yield violation(COUNTS, [answer], "prompt and completion tokens come in different usage objects")


def _end(answer: Answer) -> Iterator[Violation]:
    """The finish reason against the number of tokens, and no stop string in the text."""
    done, labels = answer.record.complete, answer.record.invoke.labels
    counted = None if done.usage is None else done.usage.completion_tokens
    limit, stop = labels.get("max_tokens"), labels.get("stop")
    if done.finish_reason == "length" and isinstance(limit, int) and counted is not None and counted < limit:
        yield violation(ENDS, [answer], f"finish reason length after {counted} of {limit} tokens")
    for word in stop if isinstance(stop, Sequence) and not isinstance(stop, str) else ():
        if done.text is not None and str(word) in done.text:
            yield violation(ENDS, [answer], f"the stop string {word!r} is in the text")
