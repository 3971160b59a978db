"""All metrics of a cell under one roof, named as vLLM's result files name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.metrics.cache import cache_metrics
from harness.metrics.cell import MeasuredCell, MetricOptions, measured_cell
from harness.metrics.classes import ClassSummary, class_summaries
from harness.metrics.goodput import goodput_metrics
from harness.metrics.intervals import interval_metrics
from harness.metrics.latency import latency_metrics
from harness.metrics.load import FailureGroup, failure_groups, load_metrics
from harness.metrics.schedule import schedule_metrics
from harness.metrics.speculation import speculation_metrics
from harness.metrics.steady import steady_metrics
from harness.metrics.throughput import throughput_metrics
from harness.metrics.tokens import token_metrics
from harness.records import CellInfo, Metric, Record
from harness.stats.drafts import Drafts
from workloads.plan import Json

METRICS: Mapping[str, Callable[[MeasuredCell], tuple[Metric, ...]]] = {
    "throughput": throughput_metrics,
    "goodput": goodput_metrics,
    "latency": latency_metrics,
    "tokens": token_metrics,
    "cache": cache_metrics,
    "speculation": speculation_metrics,
    "load": load_metrics,
    "schedule": schedule_metrics,
    "steady": steady_metrics,
    "intervals": interval_metrics,
}
WHOLE_UNITS = frozenset({"requests", "tokens", "events", "connections"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSummary:
    """The figures of one cell; `concurrency`, `workload` and `cache_mode` are None where nothing recorded them.

    classes: the same figures of each class, empty where requests carry none.
    """

    cell: str
    workload: str | None
    concurrency: int | None
    cache_mode: str | None
    finished: bool
    metrics: tuple[Metric, ...]
    failures: tuple[FailureGroup, ...]
    warnings: tuple[str, ...]
    context_tokens: int | None = None
    arrivals: str | None = None
    request_rate: float | None = None
    round_index: int = 0
    bound: str | None = None
    classes: tuple[ClassSummary, ...] = ()

    def metric(self, name: str) -> Metric | None:
        """The metric of that name; None if it was not computed."""
        return next((each for each in self.metrics if each.name == name), None)

    def value(self, name: str) -> float | None:
        """The value of a metric; None if it was not computed or could not be had."""
        metric = self.metric(name)
        return None if metric is None else metric.value

    def as_json(self) -> dict[str, Json]:
        """One flat object: what the cell is, then every metric by name."""
        accepted = self.metric("acceptance_length")
        return {
            "cell": self.cell,
            "workload": self.workload,
            "concurrency": self.concurrency,
            "context_tokens": self.context_tokens,
            "arrivals": self.arrivals,
            "request_rate": self.request_rate,
            "round": self.round_index,
            "bound": self.bound,
            "cache_mode": self.cache_mode,
            "finished": self.finished,
            **_numbers(self.metrics),
            "acceptance_source": None if accepted is None else accepted.note,
            "failures": [
                {"reason": each.reason, "count": each.count, "example": each.example} for each in self.failures
            ],
            "warnings": list(self.warnings),
            "classes": [{"class": each.name, **_numbers(each.metrics)} for each in self.classes],
        }


def summarise_cell(
    records: Sequence[Record],
    info: CellInfo | None,
    options: MetricOptions,
    *,
    cell: str,
    workload: str | None = None,
    concurrency: int | None = None,
    warnings: Sequence[str] = (),
    counted: Drafts | None = None,
) -> CellSummary:
    """Every metric of a cell from its records.

    `workload` and `concurrency` describe an unfinished cell, whose `info` is None; `warnings` come before its own;
    `counted` is the server's count of drafts over the measured requests.
    """
    measured = measured_cell(records, info, options, counted)
    return CellSummary(
        cell=cell,
        workload=workload if info is None else info.workload,
        concurrency=concurrency if info is None else info.concurrency,
        cache_mode=None if info is None else info.cache_mode,
        finished=info is not None,
        metrics=tuple(metric for family in METRICS.values() for metric in family(measured)),
        failures=failure_groups(measured.measured),
        warnings=(*warnings, *(() if info is None else info.warnings)),
        classes=class_summaries(measured),
    )


def _numbers(metrics: Sequence[Metric]) -> dict[str, Json]:
    return {each.name: _number(each) for each in metrics}


def _number(metric: Metric) -> float | int | None:
    value = metric.value
    return int(value) if value is not None and metric.unit in WHOLE_UNITS and float(value).is_integer() else value
