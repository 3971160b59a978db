"""Latencies so far of the cell that is running."""

from __future__ import annotations

from collections import defaultdict

from harness.metrics.latency import tpot_ms, ttft_ms
from harness.records import Complete, Invoke, Outcome, Record
from harness.stats.sketch import Sketch


class _Latencies:
    """TTFT and TPOT of the completed requests of one process, in ms."""

    def __init__(self) -> None:
        self.ttft = Sketch()
        self.tpot = Sketch()

    def add(self, record: Record) -> None:
        for sketch, value_ms in ((self.ttft, ttft_ms(record)), (self.tpot, tpot_ms(record))):
            if value_ms is not None:
                sketch.add(value_ms)


class LiveLatencies:
    """A sketch for each sending process, merged when they are shown: two values a request, never one a token."""

    def __init__(self) -> None:
        self._processes: defaultdict[str, _Latencies] = defaultdict(_Latencies)

    def add(self, invoke: Invoke, complete: Complete) -> None:
        """Count one measured request; one that did not complete has no latency."""
        if complete.outcome is Outcome.OK:
            process = str(complete.extra.get("process", ""))
            self._processes[process].add(Record(invoke=invoke, complete=complete))

    def shown(self) -> str:
        """p50 and p99 of all processes together; empty before the first answer."""
        parts = self._processes.values()
        told = {"TTFT": Sketch.of(each.ttft for each in parts), "TPOT": Sketch.of(each.tpot for each in parts)}
        return ", ".join(f"{name} {_two(sketch)} ms" for name, sketch in told.items() if sketch.count)

    def spread(self) -> str:
        """How the median TTFT differs between processes; empty of one process."""
        medians = [p50 for each in self._processes.values() if (p50 := each.ttft.quantile(0.5)) is not None]
        if len(medians) < 2:
            return ""
        return f"TTFT p50 of {len(medians)} processes {_number(min(medians))} to {_number(max(medians))} ms"


def _two(sketch: Sketch) -> str:
    return "/".join(_number(value) for share in (0.5, 0.99) if (value := sketch.quantile(share)) is not None)


def _number(value_ms: float) -> str:
    return f"{value_ms:,.0f}" if value_ms >= 100 else f"{value_ms:.3g}"
