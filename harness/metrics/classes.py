"""The figures of each class of requests in a cell, where requests carry one: the parts of a mix, kinds of content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from harness.metrics.cache import cache_metrics
from harness.metrics.cell import MeasuredCell
from harness.metrics.goodput import goodput_metrics
from harness.metrics.latency import latency_metrics
from harness.metrics.throughput import throughput_metrics
from harness.metrics.tokens import token_metrics
from harness.records import Metric, Record

LABEL = "class"
FAMILIES: Sequence[Callable[[MeasuredCell], tuple[Metric, ...]]] = (
    throughput_metrics,
    goodput_metrics,
    latency_metrics,
    token_metrics,
    cache_metrics,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSummary:
    """One class of a cell; rates are over the duration of the whole cell, so those of all classes add up to it."""

    name: str
    metrics: tuple[Metric, ...]

    def metric(self, name: str) -> Metric | None:
        """The metric of that name; None if it is not computed for classes."""
        return next((each for each in self.metrics if each.name == name), None)

    def value(self, name: str) -> float | None:
        """The value of a metric; None if it is not computed for classes or could not be had."""
        metric = self.metric(name)
        return None if metric is None else metric.value


def class_summaries(cell: MeasuredCell) -> tuple[ClassSummary, ...]:
    """A summary for each class, in the order of their names; none if no measured request carries a class."""
    names = sorted({name for each in cell.measured if (name := class_of(each)) is not None})
    return tuple(_summary(cell, name) for name in names)


def class_of(record: Record) -> str | None:
    """The class that the plan gave a request; None without one."""
    name = record.invoke.labels.get(LABEL)
    return name if isinstance(name, str) else None


def _summary(cell: MeasuredCell, name: str) -> ClassSummary:
    own = replace(
        cell,
        measured=tuple(each for each in cell.measured if class_of(each) == name),
        completed=tuple(each for each in cell.completed if class_of(each) == name),
    )
    return ClassSummary(name=name, metrics=tuple(metric for family in FAMILIES for metric in family(own)))
