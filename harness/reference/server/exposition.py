"""Prometheus text from counters and gauges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from harness.reference.scheduler.stats import Histogram

Labels = dict[str, str]
Samples = Sequence[tuple[Labels, float]]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Families:
    """Metric families to show."""

    families: Sequence[Metric]

    def collect(self) -> Iterable[Metric]:
        """What prometheus_client asks a registry for."""
        return self.families


def text(families: Sequence[Metric]) -> bytes:
    """The exposition of some families."""
    return bytes(generate_latest(Families(families)))


def counter(name: str, help_text: str, samples: Samples) -> Metric:
    """A counter; ``_total`` is added to its name."""
    family = CounterMetricFamily(name, help_text, labels=_label_names(samples))
    for labels, value in samples:
        family.add_metric(list(labels.values()), float(value))
    return family


def gauge(name: str, help_text: str, samples: Samples) -> Metric:
    """A gauge."""
    family = GaugeMetricFamily(name, help_text, labels=_label_names(samples))
    for labels, value in samples:
        family.add_metric(list(labels.values()), float(value))
    return family


def histogram(name: str, help_text: str, samples: Sequence[tuple[Labels, Histogram]]) -> Metric:
    """A histogram."""
    family = HistogramMetricFamily(name, help_text, labels=list(samples[0][0]) if samples else [])
    for labels, value in samples:
        family.add_metric(list(labels.values()), value.cumulative(), value.total)
    return family


def _label_names(samples: Samples) -> list[str]:
    return list(samples[0][0]) if samples else []
