from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.stats.tests import (
    discordant_greater,
    fisher_greater,
    hazard_ratio_greater,
    holm,
    rate_upper_bound,
    t_greater,
    t_quantile,
)


@settings(deadline=None)
@given(st.lists(st.floats(-3, 5), min_size=3, max_size=40), st.floats(-1, 1))
def test_t_is_scipys_when_the_spread_is_above_the_floor(values: list[float], bound: float) -> None:
    if np.std(values, ddof=1) < 0.31:
        return
    expected = stats.ttest_1samp(values, bound, alternative="greater").pvalue
    assert t_greater(values, bound) == pytest.approx(expected, rel=1e-6, abs=1e-300)


def test_the_floor_keeps_identical_values_from_being_certain() -> None:
    assert t_greater([1.0] * 4, 0.9) == pytest.approx(stats.t.sf(0.1 * 2 / 0.3, 3))


@pytest.mark.parametrize("values", [[], [5.0]])
def test_too_few_values_prove_nothing(values: list[float]) -> None:
    assert t_greater(values, 0.0) == 1.0


def test_holm_steps_down_and_stops_at_the_first_that_stands() -> None:
    assert holm({"a": 0.001, "b": 0.02, "c": 0.03, "d": 0.5}, 0.05) == {"a"}
    assert holm({"a": 0.001, "b": 0.012, "c": 0.02, "d": 0.5}, 0.05) == {"a", "b", "c"}
    assert holm({}, 0.05) == frozenset()


def test_fisher_against_the_hypergeometric_tail() -> None:
    assert fisher_greater(9, 32, 0, 20) == pytest.approx(float(stats.hypergeom.sf(8, 52, 9, 32)))
    assert fisher_greater(3, 3, 0, 0) == 1.0


def test_upper_bound_of_a_rate_solves_the_binomial_tail() -> None:
    bound = rate_upper_bound(2, 50)
    assert stats.binom.cdf(2, 50, bound) == pytest.approx(0.05)
    assert rate_upper_bound(0, 0) == 1.0
    assert rate_upper_bound(0, 459, 0.99) <= 0.01 < rate_upper_bound(0, 458, 0.99)


def test_hazard_ratio_is_a_binomial_tail() -> None:
    assert hazard_ratio_greater(32, 32, 0, 512, 3) == pytest.approx((96 / 608) ** 32)
    assert hazard_ratio_greater(0, 512, 5, 512, 1) == 1.0
    assert hazard_ratio_greater(4, 10, 0, 0, 1) == 1.0


def test_fourteen_one_way_discordant_pairs_are_needed_at_one_in_ten_thousand() -> None:
    assert discordant_greater(14, 0) <= 1.1e-4 < discordant_greater(13, 0)
    assert discordant_greater(0, 3) == 1.0


def test_quantile_of_t() -> None:
    assert t_quantile(0.99, 32) == pytest.approx(float(stats.t.ppf(0.99, 31)))
    assert math.isfinite(t_quantile(0.99, 0))


def test_the_checks_are_listed_without_loading_scipy() -> None:
    """It takes longer than everything else that `check --help` needs."""
    code = "import sys, harness.checks.registry; sys.exit(any(name.split('.')[0] == 'scipy' for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
