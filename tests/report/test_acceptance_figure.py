"""The figure of drafting: drawn where a cell has an acceptance length, which is told from one that has none."""

from __future__ import annotations

from harness.metrics import CellSummary
from harness.metrics.speculation import COUNTERS, FIELDS
from harness.records import Metric
from harness.report.acceptance_figure import draw_acceptance, has_drafts


def cell(value: float | None, source: str | None = COUNTERS) -> CellSummary:
    metric = Metric(name="acceptance_length", unit="tokens per step", value=value, count=9, note=source)
    return CellSummary(
        cell="c1", workload="repeat", concurrency=1, cache_mode="warm", finished=True, metrics=(metric,), failures=(),
        warnings=(),
    )  # fmt: skip


def test_only_runs_with_drafts_have_the_figure() -> None:
    assert not has_drafts([]) and not has_drafts([("1", cell(None, None))])
    assert has_drafts([("1", cell(None, None)), ("2", cell(1.0))])


def test_every_cell_has_its_value_and_source() -> None:
    (axes,) = draw_acceptance(
        [("1", cell(2.5)), ("8", cell(1.0, FIELDS)), ("32", cell(None, None))], "concurrency"
    ).axes
    said = [text.get_text() for text in axes.texts]
    assert said == ["2.50\ncounters", "1.00\nown fields", "not told"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "8", "32"]
    assert axes.get_ylim()[0] == 1.0
