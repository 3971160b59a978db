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

    def reply_id(self, route_prefix: str, request_id: str) -> str:
        """The id of a reply."""
        ...

    def models(self, created_s: int) -> Json:
        """The body of /v1/models."""
        ...

    def whole(self, envelope: Envelope, choices: list[Choice]) -> object:
        """An answer in one piece, by the envelope's route."""
        ...

    def events(self, envelope: Envelope, choice: Choice) -> list[Json]:
        """Stream events for a choice's newest delta."""
        ...

    def last_events(self, envelope: Envelope, choices: list[Choice]) -> list[Json]:
        """Stream events after all choices have ended."""
        ...

    def error(self, error: RequestError) -> Json:
        """The body of a refusal."""
        ...

    def stream_error(self, error: RequestError) -> Json:
        """The event of an error after a stream has begun."""
        ...

    def closes_after_error(self) -> bool:
        """Whether ``[DONE]`` still follows such an event."""
        ...

    def queue_full(self) -> RequestError:
        """The refusal of a request that may not even wait."""
        ...

    def refuses_in_stream(self) -> bool:
        """Whether a stream is told of a full queue by an event of a 200, not by a status."""
        ...

    def no_route(self, status: int, reason: str) -> Json:
        """The body of 404 and 405 for paths and methods that do not exist."""
        ...

    def too_long(self, prompt_tokens: int, answer_tokens: int | None) -> RequestError:
        """The refusal of a prompt and answer that the context cannot hold."""
        ...

    def metrics(self, views: Sequence[EngineView]) -> list[Metric]:
        """The families of /metrics."""
        ...
