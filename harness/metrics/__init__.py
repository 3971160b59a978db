"""Metrics: pure functions from the records of a cell to numbers with a unit, a count and a note."""

from harness.metrics.cell import MetricOptions
from harness.metrics.distribution import parse_percentiles
from harness.metrics.goodput import parse_goodput
from harness.metrics.load import FailureGroup
from harness.metrics.summary import METRICS, CellSummary, summarise_cell

__all__ = [
    "METRICS",
    "CellSummary",
    "FailureGroup",
    "MetricOptions",
    "parse_goodput",
    "parse_percentiles",
    "summarise_cell",
]
