"""Whether anyone else used the server meanwhile: prompt tokens that its counters saw and we did not send."""

from __future__ import annotations

from itertools import pairwise

from harness.checks.history import CheckHistory

SLACK_TOKENS = 16
SLACK_SHARE = 0.01


def foreign_tokens(history: CheckHistory) -> int | None:
    """Prompt tokens that were not ours, 0 if all were; None if the counters cannot tell.

    They cannot without two samples, when they run backwards (several servers answer), or while a request of ours has no
    token count.
    """
    samples = sorted(
        (sample for sample in history.counters if "prompt_tokens" in sample.values), key=lambda sample: sample.at_ns
    )
    counts = [sample.values["prompt_tokens"] for sample in samples]
    if len(counts) < 2 or any(later < earlier for earlier, later in pairwise(counts)):
        return None
    ours = 0
    for answer in history.answers:
        usage = answer.record.complete.usage
        if usage is None or usage.prompt_tokens is None:
            return None
        ours += usage.prompt_tokens
    extra = round(counts[-1] - counts[0]) - ours
    return extra if extra > SLACK_TOKENS + SLACK_SHARE * ours else 0
