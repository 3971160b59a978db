"""The scalability law: its coefficients come back, and a peak is claimed only where the data show one."""

from __future__ import annotations

import numpy as np
import pytest

from harness.metrics.scalability import fit_scalability

LEVELS = [1, 2, 4, 8, 16, 32, 64]


def law(n: float, g: float = 100.0, a: float = 0.05, b: float = 0.001) -> float:
    return g * n / (1 + a * (n - 1) + b * n * (n - 1))


def test_the_coefficients_come_back_and_the_peak_with_them() -> None:
    fit = fit_scalability(LEVELS, [law(n) for n in LEVELS])
    assert fit is not None
    assert (fit.g, fit.a, fit.b) == pytest.approx((100.0, 0.05, 0.001), rel=1e-6)
    assert fit.peak == pytest.approx(np.sqrt(0.95 / 0.001), rel=1e-6)
    assert fit.throughput(8) == pytest.approx(law(8))


def test_no_peak_is_claimed_where_throughput_only_levels_off() -> None:
    rng = np.random.default_rng(1)
    values = [law(n, b=0.0) * rng.uniform(0.95, 1.05) for n in LEVELS]
    fit = fit_scalability(LEVELS, values)
    assert fit is not None and fit.b_low <= 1e-4 and (fit.peak is None or fit.peak > 64)


@pytest.mark.parametrize("levels", [[1, 2, 4, 8, 16], [1, 1, 2, 2, 4, 4, 8]])
def test_fewer_than_six_levels_are_not_fitted(levels: list[int]) -> None:
    assert fit_scalability(levels, [law(n) for n in levels]) is None


def test_levels_without_throughput_are_not_fitted() -> None:
    assert fit_scalability(LEVELS, [0.0, *(law(n) for n in LEVELS[1:])]) is None
