"""When sessions arrive under open load: constant, Poisson, gamma, ramps, a trace's times, or all at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, takewhile

from workloads.plan import Json
from workloads.text import seeded

NS_PER_S = 1_000_000_000
RAMPS = ("linear", "exponential")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """The rate goes from that of the arrivals to `end_per_s` within `seconds`, and stays there."""

    end_per_s: float
    seconds: float
    shape: str = "linear"

    def __post_init__(self) -> None:
        if not 0 < self.end_per_s < math.inf or not 0 < self.seconds < math.inf:
            raise ValueError("a ramp needs a rate to end at and a time, both above 0")
        if self.shape not in RAMPS:
            raise ValueError(f"a ramp is {' or '.join(RAMPS)}, not {self.shape!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """A renewal process of `rate_per_s` arrivals a second, infinity for all at once.

    burstiness: shape of the gamma-distributed gaps, whose variance is their squared mean divided by it: 1 is Poisson,
    below it is burstier, infinity is a constant rate. times_s: given times in place of a process, divided by `speed`.
    horizon_s: nothing arrives later; None means no limit.
    """

    rate_per_s: float = math.inf
    burstiness: float = 1.0
    ramp: Ramp | None = None
    times_s: tuple[float, ...] | None = None
    speed: float = 1.0
    horizon_s: float | None = None

    def __post_init__(self) -> None:
        if not self.rate_per_s > 0 or not self.burstiness > 0:
            raise ValueError("a request rate and its burstiness must be above 0")
        if not 0 < self.speed < math.inf:
            raise ValueError(f"the speed of a trace must be above 0, got {self.speed:g}")
        if self.ramp is not None and (math.isinf(self.rate_per_s) or self.times_s is not None):
            raise ValueError("a ramp needs a finite request rate to start from")

    def starts_ns(self, seed: Json, count: int | None) -> tuple[int, ...]:
        """The times of the first `count` arrivals from the start, rising; None as many as the horizon allows."""
        if count is None and (self.horizon_s is None or math.isinf(self.rate_per_s)) and self.times_s is None:
            raise ValueError("arrivals without end need a number of requests or a duration with a finite rate")
        horizon_s = math.inf if self.horizon_s is None else self.horizon_s
        times_s = takewhile(lambda at_s: at_s <= horizon_s, islice(self._times_s(seed), count))
        return tuple(round(at_s * NS_PER_S) for at_s in times_s)

    def slowed(self, factor: float) -> Arrivals:
        """The same process with the rate divided by `factor`; given times stay as they are."""
        if self.times_s is not None or math.isinf(self.rate_per_s):
            return self
        ramp = None if self.ramp is None else replace(self.ramp, end_per_s=self.ramp.end_per_s / factor)
        return replace(self, rate_per_s=self.rate_per_s / factor, ramp=ramp)

    def as_json(self) -> Mapping[str, Json]:
        """The process as plain data; given times are named by their number only."""
        ramp = self.ramp
        return {
            "rate_per_s": _finite(self.rate_per_s),
            "burstiness": _finite(self.burstiness),
            "ramp": None if ramp is None else [ramp.shape, ramp.end_per_s, ramp.seconds],
            "times": None if self.times_s is None else len(self.times_s),
            "speed": self.speed,
        }

    def _times_s(self, seed: Json) -> Iterator[float]:
        if self.times_s is not None:
            yield from (at_s / self.speed for at_s in self.times_s)
            return
        rng = seeded(seed, "arrivals")
        total = 0.0
        first = True
        while True:
            if not first and not math.isinf(self.burstiness):
                total += rng.gammavariate(self.burstiness, 1 / self.burstiness)
            elif not first:
                total += 1.0
            first = False
            yield self._when_s(total)

    def _when_s(self, expected: float) -> float:
        """When `expected` arrivals are due: the inverse of the integrated rate."""
        rate, ramp = self.rate_per_s, self.ramp
        if ramp is None:
            return 0.0 if math.isinf(rate) else expected / rate
        in_ramp = _ramp_total(rate, ramp)
        if expected > in_ramp:
            return ramp.seconds + (expected - in_ramp) / ramp.end_per_s
        if ramp.end_per_s == rate:
            return expected / rate
        if ramp.shape == "exponential":
            growth = math.log(ramp.end_per_s / rate) / ramp.seconds
            return math.log1p(expected * growth / rate) / growth
        slope = (ramp.end_per_s - rate) / ramp.seconds
        return (math.sqrt(rate * rate + 2 * slope * expected) - rate) / slope


def _ramp_total(rate: float, ramp: Ramp) -> float:
    """Arrivals expected while the ramp lasts."""
    if ramp.shape == "linear" or ramp.end_per_s == rate:
        return ramp.seconds * (rate + ramp.end_per_s) / 2
    return (ramp.end_per_s - rate) * ramp.seconds / math.log(ramp.end_per_s / rate)


def _finite(value: float) -> Json:
    return "inf" if math.isinf(value) else value
