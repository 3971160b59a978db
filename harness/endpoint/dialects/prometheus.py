"""A Prometheus page as `name{labels}` to value."""

from __future__ import annotations

import re
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

# Histogram buckets and creation times are most of a page and are not counters of ours.
_SAMPLE_LINE = re.compile(r"^(?!#)[^\s{]*(?<!_bucket)(?<!_created)[\s{].*$", re.MULTILINE)


def parse_counters(page: str) -> dict[str, float]:
    """`name{labels}` (labels sorted by name) to value; histogram buckets and creation times are left out.

    Raises ValueError if the page is not in the Prometheus text format.
    """
    text = "\n".join(_SAMPLE_LINE.findall(page)) + "\n"
    return {
        _key(sample.name, sample.labels): float(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def with_label(key: str, label: str, value: str) -> str:
    """A key of `parse_counters` with one more label in front."""
    name, _, labels = key.partition("{")
    rest = f",{labels}" if labels else "}"
    return f'{name}{{{label}="{_escaped(value)}"{rest}'


def _key(name: str, labels: Mapping[str, str]) -> str:
    if not labels:
        return name
    pairs = ",".join(f'{label}="{_escaped(value)}"' for label, value in sorted(labels.items()))
    return f"{name}{{{pairs}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
