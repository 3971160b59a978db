"""Mean, median, standard deviation and percentiles of a set of values, under vLLM's names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.records import Metric

NO_VALUES = "no request gave a value"


def parse_percentiles(text: str) -> tuple[float, ...]:
    """Percentiles as the command line gives them, "50,90,99.9"; raises ValueError if one is not within 0 to 100."""
    percentiles = []
    for item in text.split(","):
        try:
            percentile = float(item)
        except ValueError:
            raise ValueError(f"{item.strip()!r} is not a percentile; write them as 50,90,99") from None
        if not 0 <= percentile <= 100:
            raise ValueError(f"a percentile lies between 0 and 100, got {item.strip()}")
        percentiles.append(percentile)
    return tuple(dict.fromkeys(percentiles))


def percentile_word(percentile: float) -> str:
    """The name of a percentile: 99 is "p99", 99.9 is "p99.9"."""
    return f"p{percentile:g}"


def distribution(
    what: str,
    unit: str,
    values: Sequence[float] | npt.NDArray[np.float64],
    percentiles: Sequence[float],
    note: str | None = None,
) -> tuple[Metric, ...]:
    """mean_, median_, std_ and pN_ of `values`, each named after `what`.

    Percentiles interpolate linearly between order statistics; std is that of the population (divided by n), as vLLM's
    are. Every value is None if there are no values.
    """
    array = np.asarray(values, dtype=np.float64)
    names = ["mean", "median", "std", *(percentile_word(each) for each in percentiles)]
    if not len(array):
        return tuple(_metric(f"{name}_{what}", unit, None, 0, note or NO_VALUES) for name in names)
    numbers = [array.mean(), np.median(array), array.std(), *np.percentile(array, percentiles)]
    return tuple(
        _metric(f"{name}_{what}", unit, float(number), len(array), note)
        for name, number in zip(names, numbers, strict=True)
    )


def _metric(name: str, unit: str, value: float | None, count: int, note: str | None) -> Metric:
    return Metric(name=name, unit=unit, value=value, count=count, note=note)
