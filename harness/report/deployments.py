"""Published deployments that come with the package, and their figures beside a run's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources

from harness.memory.deployment import Deployment, parse_deployment
from harness.report.compare.published import PublishedFigure, PublishedRun, load_published
from harness.report.derive import RunSummary
from harness.report.numbers import number
from harness.report.tables import Table, Value, cell_label

FOLDER = resources.files("harness.memory") / "deployments"
HEADINGS = ("figure", "here", "published", "here / published", "published for")
_OWN_NAMES = {"tpot_ms": "mean_tpot_ms"}


def deployment_names() -> list[str]:
    """The deployments that can be named with --preset."""
    return sorted(item.name.removesuffix(".json") for item in FOLDER.iterdir() if item.name.endswith(".json"))


def load_deployment(name: str) -> Deployment:
    """The deployment of that name; LookupError, listing those there are, if there is none."""
    file = FOLDER / f"{name.lower()}.json"
    if not file.is_file():
        raise LookupError(f"no preset is called {name}; there are {', '.join(deployment_names())}")
    return parse_deployment(json.loads(file.read_text("utf-8")))


def published_tables(runs: Sequence[RunSummary]) -> tuple[Table, ...]:
    """One table with every published figure that a cell of a run with a preset can stand beside; none without."""
    rows: list[tuple[str, ...]] = []
    values: list[tuple[Value, ...]] = []
    for run in runs:
        for published in _published(run):
            for cell in run.cells:
                for figure in published.figures:
                    if figure.concurrency is None or figure.concurrency != cell.concurrency:
                        continue
                    ours = cell.value(_OWN_NAMES.get(figure.metric, figure.metric))
                    rows.append((cell_label(cell), *_row(published, figure, ours)))
                    values.append((cell_label(cell), figure.metric, ours, figure.value, published.hardware))
    if not rows:
        return ()
    table = Table(
        slug="published",
        title="Beside what was published",
        headings=("concurrency", *HEADINGS),
        rows=tuple(rows),
        groups=(),
        metrics=("cell", "metric", "here", "published", "published_for"),
        values=tuple(values),
    )
    return (table,)


def _published(run: RunSummary) -> list[PublishedRun]:
    """The figures of a run's preset; none for a run without one, or with one that this version does not know."""
    name = run.info.options.get("preset")
    if not isinstance(name, str) or name not in deployment_names():
        return []
    found = [load_published(each) for each in load_deployment(name).published]
    return [each for each in found if each is not None]


def _row(published: PublishedRun, figure: PublishedFigure, ours: float | None) -> tuple[str, ...]:
    ratio = None if ours is None else ours / figure.value
    conditions = f"{published.hardware}: {figure.conditions}"
    return figure.metric, number(ours), f"{figure.value:g} {figure.unit}", number(ratio), conditions
