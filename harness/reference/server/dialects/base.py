"""What a dialect is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from prometheus_client.metrics_core import Metric

from harness.reference.server.errors import RequestError
from harness.reference.server.reply import Choice, Envelope
from harness.reference.server.rules import Rules
from harness.reference.server.view import EngineView

Json = dict[str, object]


class Dialect(Protocol):
    """How one engine writes what the service has to say."""

    rules: Rules
    reports_done: bool

    def reply_id(self, route_prefix: str, request_id: str) -> str:
        """The id of a reply."""
        ...

    def models(self, created_s: int) -> Json:
        """The body of /v1/models."""
        ...

    def completion(self, envelope: Envelope, choices: list[Choice]) -> Json:
        """A whole completion."""
        ...

    def chat(self, envelope: Envelope, choices: list[Choice]) -> Json:
        """A whole chat answer."""
        ...

    def completion_events(self, envelope: Envelope, choice: Choice) -> list[Json]:
        """Stream events for a choice's newest delta."""
        ...

    def chat_events(self, envelope: Envelope, choice: Choice) -> list[Json]:
        """Stream events for a choice's newest delta."""
        ...

    def last_events(self, envelope: Envelope, choices: list[Choice]) -> list[Json]:
        """Stream events after all choices have ended."""
        ...

    def error(self, error: RequestError) -> Json:
        """The body of a refusal, or of an event when a stream has begun."""
        ...

    def too_long(self, prompt_tokens: int, answer_tokens: int | None) -> RequestError:
        """The refusal of a prompt and answer that the context cannot hold."""
        ...

    def metrics(self, views: Sequence[EngineView]) -> list[Metric]:
        """The families of /metrics."""
        ...
