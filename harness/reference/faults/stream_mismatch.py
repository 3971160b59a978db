"""K33: a stream tells other counts than an answer in one piece."""

from __future__ import annotations

from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.faults.usage_fields import change_stream, details_of, usage_of
from harness.reference.server.dialects.base import Dialect, Json
from harness.reference.server.reply import Choice, Envelope

PROMPT_FIELDS = ("prompt_tokens", "prompt_tokens_details")


class StreamMismatch(Fault):
    """Usage in streams is incomplete, different, or cut in two."""

    info = FaultInfo(
        code="K33",
        name="STREAM_NONSTREAM_MISMATCH",
        modes=(
            Mode(name="missing", size="accounting", effect="cached tokens are left out", trigger="a streamed answer"),
            Mode(
                name="different",
                size="accounting",
                effect="half the cached tokens are reported",
                trigger="a streamed answer with a hit",
            ),
            Mode(
                name="continuous",
                size="accounting",
                effect="the prompt's tokens lack the cached ones until the last event",
                trigger="a streamed answer with a hit and usage in every event",
            ),
            Mode(
                name="split",
                size="accounting",
                effect="prompt and completion counts come in two events",
                trigger="a streamed answer with usage",
            ),
        ),
    )

    def plant_dialect(self, dialect: Dialect) -> None:
        """Overrides writing the events of a stream."""
        if self.mode == "continuous":
            self._plant_continuous(dialect)
        elif self.mode == "split":
            self._plant_split(dialect)
        else:
            change_stream(dialect, self._spoil)

    def _spoil(self, usage: Json, _envelope: Envelope) -> None:
        details = details_of(usage)
        cached = details.get("cached_tokens") if details is not None else None
        if details is None or not isinstance(cached, int):
            return
        if self.mode == "missing" and self.dice.roll():
            del usage["prompt_tokens_details"]
        elif self.mode == "different" and cached and self.dice.roll():
            details["cached_tokens"] = cached // 2

    def _plant_continuous(self, dialect: Dialect) -> None:
        events = dialect.events

        def events_without(envelope: Envelope, choice: Choice) -> list[Json]:
            made = events(envelope, choice)
            cached = choice.usage.cached_tokens if choice.usage is not None else 0
            for usage in filter(None, map(usage_of, made)):
                prompt = usage["prompt_tokens"]
                if choice.finish is None and cached and isinstance(prompt, int) and self.dice.roll():
                    usage["prompt_tokens"] = prompt - cached
            return made

        override(dialect, "events", events_without)

    def _plant_split(self, dialect: Dialect) -> None:
        last_events = dialect.last_events

        def events_in_two(envelope: Envelope, choices: list[Choice]) -> list[Json]:
            made: list[Json] = []
            for event in last_events(envelope, choices):
                usage = usage_of(event)
                if usage is None or not self.dice.roll():
                    made.append(event)
                    continue
                prompt = {name: usage[name] for name in PROMPT_FIELDS if name in usage}
                rest = {name: value for name, value in usage.items() if name not in PROMPT_FIELDS}
                made += [{**event, "usage": prompt}, {**event, "usage": rest}]
            return made

        override(dialect, "last_events", events_in_two)
