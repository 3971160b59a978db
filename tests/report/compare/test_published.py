"""Published figures: every one has its source and conditions, and stands only at its own load."""

from __future__ import annotations

import pytest

from harness.report.compare.published import load_published, parse_published, published_names
from workloads.plan import Json

FIGURE: dict[str, Json] = {
    "metric": "tpot_ms", "value": 5.0, "unit": "ms", "concurrency": 1, "statistic": None, "conditions": "batch 1",
}  # fmt: skip
DOCUMENT: dict[str, Json] = {
    "name": "x", "model": "m", "hardware": "h", "source": "s", "conditions": "c", "figures": [FIGURE],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "metric", "value"),
    [
        ("ling-3.1-flash-8xh200", "output_throughput", 251.2),
        ("ling-3.1-flash-4xgb300", "output_throughput", 180.0),
        ("ling-3.1-flash-4xgb300", "tpot_ms", 5.14),
        ("ling-3.1-flash-4xgb300", "acceptance_length", 2.59),
        ("ling-3.1-flash-mtp", "acceptance_length", 2.13),
        ("ling-3.1-flash-prefix-cache", "prefill_tokens_saved_per_later_turn", 576),
    ],
)
def test_the_figures_that_come_with_the_package(name: str, metric: str, value: float) -> None:
    published = load_published(name)
    assert published is not None
    assert value in [each.value for each in published.figures if each.metric == metric]
    assert published.source and published.conditions


def test_every_file_can_be_read() -> None:
    assert len(published_names()) >= 4
    assert all(load_published(name) is not None for name in published_names())


def test_a_figure_stands_only_at_its_own_load() -> None:
    published = parse_published("x", DOCUMENT)
    assert published.figure("median_tpot_ms", 1) is not None
    assert published.figure("median_tpot_ms", 8) is None
    assert published.figure("median_ttft_ms", 1) is None


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"source": None}, "source"),
        ({"figures": []}, "figures"),
        ({"figures": [{**FIGURE, "value": "fast"}]}, "fast"),
        ({"figures": [{**FIGURE, "concurrency": "one"}]}, "concurrency"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(changed: dict[str, Json], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        parse_published("x", {**DOCUMENT, **changed})


def test_an_unknown_name_is_none() -> None:
    assert load_published("no-such-figures") is None
