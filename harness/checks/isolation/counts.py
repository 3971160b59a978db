"""Cached tokens that nobody can have left: a request under a salt of its own has nothing to find.

A request that was preempted finds its own blocks again; a server that counts those has counted work of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checks.history import CheckHistory
from harness.checks.verdict import Evidence
from harness.records import Outcome


def found_under_own_salt(history: CheckHistory) -> Iterator[Evidence]:
    """Every answer under a fresh salt that reports cached tokens; nothing where salts were not found to work."""
    if history.capabilities.salt is not True:
        return
    for answer in history.answers:
        invoke, done = answer.record.invoke, answer.record.complete
        cached = None if done.usage is None else done.usage.cached_tokens
        if "cache_salt" not in invoke.parameters or done.outcome is not Outcome.OK or cached is None or cached <= 0:
            continue
        assert done.usage is not None
        text = f"{invoke.key}: {cached} of {done.usage.prompt_tokens} tokens are said to be cached, under a new salt"
        yield Evidence(request_ids=(invoke.request_id,), text=text, table={"cached_tokens": cached})
