"""Counts and times of one cell, kept while it runs so that the closing record needs no second look at the history."""

from __future__ import annotations

from array import array
from collections import Counter

from harness.drive.health import percentiles_ms
from harness.drive.witness import OwnTokens
from harness.records import Complete, Invoke, Outcome
from workloads.plan import Phase


class Tally:
    """Counts every request; times are kept of measured ones alone.

    window: from the first measured request's planned time to the last measured event; None before there is one.
    """

    def __init__(self) -> None:
        self.outcomes: Counter[Outcome] = Counter()
        self.warmup_requests = 0
        self.retries = 0
        self.own = OwnTokens()
        self.unparsed_events = 0
        self.window_start_ns: int | None = None
        self.window_end_ns: int | None = None
        self._send_delays_ns = array("q")
        self._sent_ns = array("q")
        self._end_ns = array("q")

    def add(self, invoke: Invoke, complete: Complete) -> None:
        """Count one request."""
        self.retries += complete.retries
        self.own.add(complete)
        self.unparsed_events += complete.unparsed_events
        if invoke.phase is Phase.WARMUP:
            self.warmup_requests += 1
            return
        self.outcomes[complete.outcome] += 1
        self._widen(invoke, complete)
        if complete.sent_ns is not None and "rate_limited" not in complete.extra:
            self._send_delays_ns.append(complete.sent_ns - invoke.planned_ns)
            if complete.end_ns is not None:
                self._sent_ns.append(complete.sent_ns)
                self._end_ns.append(complete.end_ns)

    def _widen(self, invoke: Invoke, complete: Complete) -> None:
        if self.window_start_ns is None or invoke.planned_ns < self.window_start_ns:
            self.window_start_ns = invoke.planned_ns
        last_ns = complete.end_ns if complete.last_token_ns is None else complete.last_token_ns
        if last_ns is not None and (self.window_end_ns is None or last_ns > self.window_end_ns):
            self.window_end_ns = last_ns

    @property
    def measured(self) -> int:
        """Measured requests, whatever became of them."""
        return self.outcomes.total()

    @property
    def send_delay_ms(self) -> tuple[float | None, float | None]:
        """p50 and p99 of the time from planned to written; None if nothing was written."""
        p50, p99 = percentiles_ms(self._send_delays_ns, (50, 99))
        return p50, p99

    @property
    def achieved_concurrency(self) -> float | None:
        """Mean number of measured requests in flight over the window; None without a window."""
        start_ns, end_ns = self.window_start_ns, self.window_end_ns
        if start_ns is None or end_ns is None or end_ns <= start_ns:
            return None
        in_flight_ns = sum(
            max(0, min(ended, end_ns) - max(sent, start_ns))
            for sent, ended in zip(self._sent_ns, self._end_ns, strict=True)
        )
        return in_flight_ns / (end_ns - start_ns)
