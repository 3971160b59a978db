"""Carrying a flush out, as a record of what the server said to it."""

from __future__ import annotations

from harness.clock import Clock
from harness.endpoint.cache_control import flush
from harness.endpoint.side import ControlPort
from harness.records import Complete, Outcome


class Flusher:
    """Empties the server's cache; engine None means that it is not known."""

    def __init__(self, client: ControlPort, engine: str | None, clock: Clock) -> None:
        self._client = client
        self._engine = engine
        self._clock = clock

    async def flush(self, request_id: str) -> Complete:
        """OK if the server says its cache is empty, REFUSED with its reason if it says anything else."""
        sent_ns = self._clock.now_ns()
        flushed = await flush(self._client, self._engine, self._clock)
        return Complete(
            request_id=request_id,
            outcome=Outcome.OK if flushed.error is None else Outcome.REFUSED,
            error=flushed.error,
            http_status=None if flushed.error is None else flushed.error.http_status,
            sent_ns=sent_ns,
            end_ns=self._clock.now_ns(),
            extra={"path": flushed.path, "said": flushed.said},
        )
