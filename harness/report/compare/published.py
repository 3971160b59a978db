"""Figures that others published, as data: each with its source and the conditions it was measured under."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from workloads.plan import Json

FOLDER = resources.files("harness.report") / "published"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFigure:
    """One number. metric: the name our own has. statistic: which one it is of a latency; None: the source does not say.

    concurrency: None if the source does not say.
    """

    metric: str
    value: float
    unit: str
    concurrency: int | None
    statistic: str | None
    conditions: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """What one source says of one model on one machine."""

    name: str
    model: str
    hardware: str
    source: str
    conditions: str
    figures: tuple[PublishedFigure, ...]

    def figure(self, metric: str, concurrency: int) -> PublishedFigure | None:
        """The figure that may stand beside ours at this load level; a latency's stands beside any statistic of it."""
        for each in self.figures:
            if each.concurrency == concurrency and (each.metric == metric or metric.endswith(f"_{each.metric}")):
                return each
        return None


def published_names() -> list[str]:
    """The published figures that come with the package."""
    return sorted(item.name.removesuffix(".json") for item in FOLDER.iterdir() if item.name.endswith(".json"))


def load_published(name_or_path: str) -> PublishedRun | None:
    """A file that holds published figures, or those of that name; None if it is neither. ValueError if malformed."""
    path = Path(name_or_path)
    source: Traversable | Path = path if path.suffix == ".json" else FOLDER / f"{name_or_path}.json"
    if not source.is_file():
        return None
    try:
        document = json.loads(source.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{name_or_path} is not JSON: {error}") from None
    return parse_published(name_or_path, document)


def parse_published(name: str, document: Json) -> PublishedRun:
    """Read one document; ValueError names what is wrong with it."""
    if not isinstance(document, Mapping):
        raise ValueError(f"{name}: published figures are a JSON object")
    listed = document.get("figures")
    if not isinstance(listed, list) or not listed:
        raise ValueError(f"{name}: figures is not a list with something in it")
    return PublishedRun(
        name=_text(name, document, "name"),
        model=_text(name, document, "model"),
        hardware=_text(name, document, "hardware"),
        source=_text(name, document, "source"),
        conditions=_text(name, document, "conditions"),
        figures=tuple(_figure(name, item) for item in listed),
    )


def _figure(name: str, item: Json) -> PublishedFigure:
    if not isinstance(item, Mapping):
        raise ValueError(f"{name}: {item!r} is not a figure")
    value, concurrency, statistic = item.get("value"), item.get("concurrency"), item.get("statistic")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name}: the value {value!r} is not a number")
    if concurrency is not None and not isinstance(concurrency, int):
        raise ValueError(f"{name}: concurrency {concurrency!r} is neither a whole number nor null")
    if statistic is not None and not isinstance(statistic, str):
        raise ValueError(f"{name}: statistic {statistic!r} is neither a text nor null")
    return PublishedFigure(
        metric=_text(name, item, "metric"),
        value=float(value),
        unit=_text(name, item, "unit"),
        concurrency=concurrency,
        statistic=statistic,
        conditions=_text(name, item, "conditions"),
    )


def _text(name: str, document: Mapping[str, Json], key: str) -> str:
    value = document.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{name}: {key} is {value!r}, not a text")
    return value
