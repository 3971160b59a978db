"""The page itself: index.html, which needs nothing beside it, and index.md for places that show Markdown."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from harness.records import RunInfo
from harness.report.derive import RunSummary
from harness.report.gate import GateView, read_gate
from harness.report.numbers import run_letter
from harness.report.selftest import MatrixView, matrix_view, read_matrix
from harness.report.tables import Table, cell_place
from harness.report.verdicts import VerdictView, read_judgements, views
from workloads.plan import Json

FactRows = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One figure on the page; `svg` goes into index.html, index.md points to the file."""

    slug: str
    title: str
    words: str
    svg: bytes

    @property
    def data_uri(self) -> str:
        """The picture as an address that needs no other file."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What the top of the page says of one run."""

    name: str
    target: str
    chosen_by: str
    model: str
    warnings: tuple[str, ...]
    failures: tuple[str, ...]
    verdicts: tuple[VerdictView, ...]
    matrix: MatrixView | None
    gate: GateView | None
    identity: FactRows
    details: FactRows


def run_facts(summary: RunSummary, name: str) -> RunFacts:
    """The target and what chose it, warnings, versions and notes, and the rest below; `name` is the run's heading."""
    info = summary.info
    cells = [f"concurrency {cell_place(cell)}: {text}" for cell in summary.cells for text in cell.warnings]
    failures = [
        f"concurrency {cell_place(cell)}: {group.count} × {group.reason} ({group.example})"
        for cell in summary.cells
        for group in cell.failures
    ]
    return RunFacts(
        name=name,
        target=info.target.base_url,
        chosen_by=info.target.chosen_by,
        model=info.target.model,
        warnings=(*summary.warnings, *cells),
        failures=tuple(failures),
        verdicts=views(read_judgements(summary.path)),
        matrix=None if (matrix := read_matrix(summary.path)) is None else matrix_view(matrix),
        gate=read_gate(summary.path),
        identity=_identity(info),
        details=_details(summary),
    )


def render_html(runs: Sequence[RunSummary], tables: Sequence[Table], pictures: Sequence[Picture]) -> str:
    """The whole page as HTML with every picture inside."""
    return _render("index.html.j2", runs, tables, pictures, autoescape=True)


def render_markdown(runs: Sequence[RunSummary], tables: Sequence[Table], pictures: Sequence[Picture]) -> str:
    """The whole page as Markdown that shows the PNG files beside it."""
    return _render("index.md.j2", runs, tables, pictures, autoescape=False)


def _render(
    template: str, runs: Sequence[RunSummary], tables: Sequence[Table], pictures: Sequence[Picture], *, autoescape: bool
) -> str:
    unfinished = any(not cell.finished for run in runs for cell in run.cells)
    return (
        templates(autoescape=autoescape)
        .get_template(template)
        .render(
            runs=[run_facts(run, name) for run, name in zip(runs, _names(runs), strict=True)],
            tables=tables,
            pictures=pictures,
            unfinished=unfinished,
        )
    )


def templates(*, autoescape: bool) -> Environment:
    """The page templates; `autoescape` for HTML. In Markdown, `cell` keeps a text inside its cell."""
    environment = Environment(
        loader=PackageLoader("harness.report"),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["cell"] = _markdown_cell
    environment.filters["anchor"] = _anchor
    return environment


def _anchor(text: str) -> str:
    """Text as part of an id that a link on the page points to."""
    return re.sub("[^A-Za-z0-9]+", "-", text)


def _names(runs: Sequence[RunSummary]) -> list[str]:
    if len(runs) == 1:
        return [runs[0].info.run_id]
    return [f"{run_letter(index)}: {run.info.run_id}" for index, run in enumerate(runs)]


def _markdown_cell(text: str) -> str:
    """Text that cannot break out of a cell of a Markdown table or of its line."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def _identity(info: RunInfo) -> FactRows:
    target = info.target
    engine = " ".join(part for part in (target.engine, target.engine_version) if part)
    return (
        ("command", " ".join(["ling-bench", *info.argv])),
        ("started", info.started_utc),
        ("engine", engine if engine else "not reported"),
        ("versions", _pairs(info.versions)),
        *((f"note: {name}", value) for name, value in info.notes.items()),
    )


def _details(summary: RunSummary) -> FactRows:
    info = summary.info
    length = info.target.max_model_len
    return (
        ("endpoint type", info.target.endpoint_type),
        ("context length", "not reported" if length is None else f"{length:,} tokens"),
        ("seed", str(info.seed)),
        ("goodput objectives, ms", _pairs(info.goodput) if info.goodput else "none"),
        ("options", _pairs(info.options)),
        ("machine of the harness", _pairs(info.host)),
        ("run folder", str(summary.path)),
    )


def _pairs(values: Mapping[str, Json]) -> str:
    return ", ".join(f"{name} {_plain(value)}" for name, value in values.items())


def _plain(value: Json) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "/".join(_plain(each) for each in value)
    if isinstance(value, Mapping):
        return "{" + _pairs(value) + "}"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
