"""Quantiles of a stream of values in bounded memory, whose parts can be put together."""

from __future__ import annotations

from collections.abc import Iterable

from ddsketch import DDSketch

RELATIVE_ACCURACY = 0.01


class Sketch:
    """A quantile of it is off by at most RELATIVE_ACCURACY of the value itself (DDSketch: Masson, Rim, Lee 2019).

    Sketches of parts, put together, are the sketch of the whole.
    """

    def __init__(self) -> None:
        self._kept = DDSketch(RELATIVE_ACCURACY)

    @classmethod
    def of(cls, parts: Iterable[Sketch]) -> Sketch:
        """All parts together; they stay as they are."""
        whole = cls()
        for part in parts:
            whole._kept.merge(part._kept)
        return whole

    @property
    def count(self) -> int:
        """Values added."""
        return int(self._kept.count)

    def add(self, value: float) -> None:
        """Take one more value in."""
        self._kept.add(value)

    def quantile(self, share: float) -> float | None:
        """The value at rank `share` * (count - 1), rounded down; None without values."""
        return self._kept.get_quantile_value(share)
