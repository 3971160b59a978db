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


@pytest.mark.parametrize("lines", [3, 20, 40])
def test_the_names_of_many_lines_stay_inside_the_picture(lines: int) -> None:
    with style.settings():
        figure, axes = style.new_axes("title", "x", "y")
        for index in range(lines):
            axes.plot([0, 1], [index, index], label=f"random-c1024-r{index} (n = 50,000)")
        style.name_lines(axes, "concurrency")
        figure.draw_without_rendering()
        legend = axes.get_legend()
        assert legend is not None
        box, picture = legend.get_window_extent(), figure.bbox
    assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= picture.x1 and box.y1 <= picture.y1
