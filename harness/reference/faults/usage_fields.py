"""Changing the usage that a dialect writes, for faults to share."""

from __future__ import annotations

from collections.abc import Callable

from harness.reference.faults.fault import override
from harness.reference.server.dialects.base import Dialect, Json
from harness.reference.server.reply import Choice, Envelope

ChangeUsage = Callable[[Json, Envelope], None]
"""Edits a usage object in place."""


def usage_of(body: object) -> Json | None:
    """The usage object of an answer or event, None when it has none."""
    usage = body.get("usage") if isinstance(body, dict) else None
    return usage if isinstance(usage, dict) else None


def details_of(usage: Json) -> Json | None:
    """The details of the prompt's tokens, None when they are absent or null."""
    details = usage.get("prompt_tokens_details")
    return details if isinstance(details, dict) else None


def change_whole(dialect: Dialect, change: ChangeUsage) -> None:
    """Has the usage of answers in one piece changed."""
    whole = dialect.whole

    def changed(envelope: Envelope, choices: list[Choice]) -> object:
        body = whole(envelope, choices)
        usage = usage_of(body)
        if usage is not None:
            change(usage, envelope)
        return body

    override(dialect, "whole", changed)


def change_stream(dialect: Dialect, change: ChangeUsage) -> None:
    """Has the usage at the end of streams changed, wherever the dialect writes it."""
    events, last_events = dialect.events, dialect.last_events

    def changed_events(envelope: Envelope, choice: Choice) -> list[Json]:
        made = events(envelope, choice)
        return _changed(made, envelope, change) if choice.finish is not None else made

    def changed_last(envelope: Envelope, choices: list[Choice]) -> list[Json]:
        return _changed(last_events(envelope, choices), envelope, change)

    override(dialect, "events", changed_events)
    override(dialect, "last_events", changed_last)


def _changed(events: list[Json], envelope: Envelope, change: ChangeUsage) -> list[Json]:
    for usage in filter(None, map(usage_of, events)):
        change(usage, envelope)
    return events
