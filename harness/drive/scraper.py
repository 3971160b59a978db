"""The server's counters during a cell: before, every second, after."""

from __future__ import annotations

import asyncio

from harness.clock import NS_PER_S, Clock
from harness.drive.ports import History, Sender
from harness.endpoint.counters import scrape_all
from harness.endpoint.errors import EndpointError
from harness.records import CounterSample

INTERVAL_NS = NS_PER_S
PATIENCE_S = 5.0


class Scraper:
    """Keeps every sample in the history and for the closing record.

    error: why there are none, or why they stopped. After the first failure nothing more is asked, so that a server
    without counters is not asked once a second.
    """

    def __init__(self, client: Sender, history: History, clock: Clock, *, wanted: bool) -> None:
        self._client = client
        self._history = history
        self._clock = clock
        self.samples: list[CounterSample] = []
        self.error: str | None = None if wanted else "not asked for"

    async def sample(self) -> None:
        """Read the counters once, unless they have failed before."""
        if self.error is not None:
            return
        try:
            async with asyncio.timeout(PATIENCE_S):
                sample = await scrape_all(self._client, self._clock, self._client.target.counter_pages)
        except EndpointError as trouble:
            self.error = str(trouble)
        except TimeoutError:
            self.error = f"no counters within {PATIENCE_S:g} s"
        else:
            self.samples.append(sample)
            self._history.counters(sample)

    async def watch(self) -> None:
        """One sample a second until cancelled or failed."""
        due_ns = self._clock.now_ns()
        while self.error is None:
            due_ns = max(due_ns + INTERVAL_NS, self._clock.now_ns())
            await self._clock.sleep_until(due_ns)
            await self.sample()
