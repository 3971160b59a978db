"""How a streamed answer was framed: what begins, ends and closes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Framing:
    """Counts over the events of one stream, for its first choice.

    finish_reasons: every one that is not null, in order. texts_after_finish: events with text, reasoning or tool calls
    after the first of them. done_markers: `[DONE]` lines. events_after_done: events after the first of those.
    """

    finish_reasons: tuple[str, ...] = ()
    texts_after_finish: int = 0
    done_markers: int = 0
    events_after_done: int = 0
