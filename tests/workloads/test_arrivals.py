"""When sessions come: rates, variance, ramps, traces; and open load as a plan."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import Any

import pytest

from tests.workloads.playing import asks_of, play
from workloads import WORKLOADS, WorkloadOptions
from workloads.arrivals import NS_PER_S, Arrivals, Ramp
from workloads.plan import Phase
from workloads.text import approximate_count


def gaps_s(arrivals: Arrivals, count: int = 20_000) -> list[float]:
    return [(b - a) / NS_PER_S for a, b in itertools.pairwise(arrivals.starts_ns(1, count))]


@pytest.mark.parametrize("rate", [0.5, 40.0])
@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_gaps_have_the_rate_and_the_variance_of_their_gamma_distribution(rate: float, burstiness: float) -> None:
    gaps = gaps_s(Arrivals(rate_per_s=rate, burstiness=burstiness))
    assert statistics.fmean(gaps) == pytest.approx(1 / rate, rel=0.05)
    assert statistics.pvariance(gaps) == pytest.approx(1 / rate**2 / burstiness, rel=0.12)


def test_infinite_burstiness_is_a_constant_rate() -> None:
    assert set(gaps_s(Arrivals(rate_per_s=8.0, burstiness=math.inf), 50)) == {0.125}


def test_an_infinite_rate_is_all_at_once() -> None:
    assert set(Arrivals().starts_ns(1, 9)) == {0}


@pytest.mark.parametrize("shape", ["linear", "exponential"])
@pytest.mark.parametrize("start, end", [(2.0, 20.0), (20.0, 2.0), (5.0, 5.0)])
def test_a_ramp_goes_from_one_rate_to_the_other(shape: str, start: float, end: float) -> None:
    ramp = Ramp(end_per_s=end, seconds=100.0, shape=shape)
    starts = Arrivals(rate_per_s=start, burstiness=math.inf, ramp=ramp, horizon_s=150.0).starts_ns(1, None)
    times = [at / NS_PER_S for at in starts]

    def rate_around(at_s: float) -> float:
        return sum(at_s - 2.5 <= t < at_s + 2.5 for t in times) / 5

    middle = (start + end) / 2 if shape == "linear" else math.sqrt(start * end)
    for at_s, expected in ((2.5, start), (50.0, middle), (97.5, end), (130.0, end)):
        assert rate_around(at_s) == pytest.approx(expected, rel=0.12, abs=0.7)


def test_a_trace_is_sped_up() -> None:
    assert Arrivals(times_s=(0.0, 3.0, 12.0), speed=3.0).starts_ns(1, None) == (0, NS_PER_S, 4 * NS_PER_S)


@pytest.mark.parametrize("wrong", [{"rate_per_s": 0.0}, {"burstiness": 0.0}, {"speed": 0.0}])
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Arrivals(**wrong)


def test_arrivals_without_end_are_refused() -> None:
    with pytest.raises(ValueError, match="without end"):
        Arrivals(rate_per_s=3.0).starts_ns(1, None)


@pytest.mark.parametrize("name, turns", [("random", None), ("agent", 4)])
def test_requests_say_when_they_were_due(name: str, turns: int | None) -> None:
    options = WorkloadOptions(
        seed=1, requests=40, highest_concurrency=1, turns=turns, warmups=2, arrivals=Arrivals(rate_per_s=2.0)
    )
    plan = WORKLOADS[name](options, approximate_count)
    asks = [ask for ask in asks_of(play(plan, at_once=64)) if ask.phase is Phase.MEASURE]
    assert len(asks) == 40 and all(ask.planned_ns is not None for ask in asks)
    openings = sorted(ask.planned_ns or 0 for ask in asks if ask.turn == 0)
    assert openings[-1] / NS_PER_S / (len(openings) - 1) == pytest.approx((turns or 1) / 2.0, rel=0.6)
    assert plan.spec()["arrivals"] == {**Arrivals(rate_per_s=2.0).as_json()}
