"""Axes that can be read whatever they span."""

from __future__ import annotations

import pytest

from harness.report import style


@pytest.mark.parametrize(("highest", "ticks_a_decade"), [(500.0, 3), (50_000.0, 1)])
def test_a_wide_axis_has_fewer_ticks_a_decade(highest: float, ticks_a_decade: int) -> None:
    with style.settings():
        _, axes = style.new_axes("title", "x", "y")
        values = [1.0, highest]
        axes.plot(values, [0, 1])
        style.fit_x(axes, values)
    within = [tick for tick in axes.get_xticks() if 10 <= tick < 100]
    assert len(within) == ticks_a_decade
    assert axes.get_xlabel() == "x, log scale"
