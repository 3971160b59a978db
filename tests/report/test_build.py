from __future__ import annotations

import csv
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from harness.report.build import build_report
from harness.report.derive import load_run
from harness.report.figures import FIGURES
from harness.report.tables import run_tables
from harness.store import RunFolder, StoreError
from tests.report.synthetic import write_run
from tests.store.samples import run_info

TABLES = {"throughput", "server", "ttft_tpot", "itl_e2el", "lengths", "health", "metrics"}
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"


class Page(HTMLParser):
    """Collects what a page refers to and whether its tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[str] = []
        self.open_tags: list[str] = []
        self.images: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.references += [value for name, value in attrs if name in ("src", "href") and value is not None]
        if tag == "img":
            self.images.append(dict(attrs))
        if tag not in ("meta", "link", "img"):
            self.open_tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open_tags.pop() == tag


def read_page(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


def test_a_report_has_its_pages_tables_and_pictures(tmp_path: Path) -> None:
    files = build_report([write_run(tmp_path)], tmp_path / "out")
    assert {path.stem for path in files.csv} == TABLES
    assert {path.stem for path in files.figures} == set(FIGURES)
    assert {path.suffix for path in files.figures} == {".png", ".svg"}
    for path in files.figures:
        content = path.read_bytes()
        assert content.startswith(PNG_MAGIC if path.suffix == ".png" else b"<?xml")
    assert files.index_md.read_text(encoding="utf-8").count(".png)") == len(FIGURES)


def test_classes_are_a_table_of_their_own(tmp_path: Path) -> None:
    files = build_report([write_run(tmp_path, levels=[1], classes=("agent", "chat"))], tmp_path / "out")
    (path,) = (each for each in files.csv if each.stem == "classes")
    with path.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["class"] for row in rows] == ["agent", "chat"]
    assert all(float(row["p50_ttft_ms"]) > 0 and float(row["output_throughput"]) > 0 for row in rows)
    assert "<h3>By class</h3>" in files.index_html.read_text("utf-8")


def test_the_page_needs_nothing_beside_it(tmp_path: Path) -> None:
    page = read_page(build_report([write_run(tmp_path)], tmp_path / "out").index_html)
    assert page.open_tags == []
    assert len(page.images) == len(FIGURES)
    assert all(reference.startswith("data:") for reference in page.references)
    assert all(image["alt"] for image in page.images)


def test_the_top_names_target_warnings_notes_and_versions(tmp_path: Path) -> None:
    info = run_info()
    embedded = replace(info, target=replace(info.target, chosen_by="embedded"), notes={"image": "dev:1"})
    files = build_report([write_run(tmp_path, run=embedded)], tmp_path / "out")
    for text in (files.index_html.read_text("utf-8"), files.index_md.read_text("utf-8")):
        top = text[: text.index("Throughput")]
        for expected in ("http://127.0.0.1:8000", "embedded", "nothing about a real model", "dev:1", "0.1.0"):
            assert expected in top


def test_text_of_the_server_cannot_become_markup(tmp_path: Path) -> None:
    hostile = replace(run_info(), notes={"n": "<script>alert(1)</script> | a\nb"})
    files = build_report([write_run(tmp_path, run=hostile)], tmp_path / "out")
    assert "<script>" not in files.index_html.read_text("utf-8")
    markdown = files.index_md.read_text("utf-8")
    assert "<script>" not in markdown
    assert "\\| a b" in markdown


@pytest.mark.parametrize(
    ("levels", "requests", "failures", "cached", "unfinished"),
    [
        ([1], 5, 0, True, []),
        ([4], 0, 3, True, []),
        ([4], 0, 0, False, [4]),
        ([1, 8], 1, 0, False, [1, 8]),
        ([], 0, 0, True, []),
    ],
)
def test_thin_runs_are_reported_without_a_crash(
    tmp_path: Path, levels: list[int], requests: int, failures: int, cached: bool, unfinished: list[int]
) -> None:
    path = write_run(
        tmp_path, levels=levels, requests=requests, failures=failures, cached=cached, unfinished=unfinished
    )
    assert read_page(build_report([path], tmp_path / "out").index_html).open_tags == []


def test_an_unfinished_cell_is_marked(tmp_path: Path) -> None:
    files = build_report([write_run(tmp_path, unfinished=[8])], tmp_path / "out")
    assert "| 8* |" in files.index_md.read_text("utf-8")
    assert "this cell is unfinished" in files.index_html.read_text("utf-8")


def test_csv_holds_unrounded_values_and_empty_cells_for_none(tmp_path: Path) -> None:
    files = build_report([write_run(tmp_path, cached=False)], tmp_path / "out")
    path = next(path for path in files.csv if path.stem == "throughput")
    with path.open(newline="") as file:
        first, *_ = csv.DictReader(file)
    assert first["concurrency"] == "1"
    assert first["cached_share"] == ""
    assert re.fullmatch(r"\d+\.\d{6,}", first["output_throughput"])


def test_two_runs_share_a_page_and_are_told_apart(tmp_path: Path) -> None:
    paths = [write_run(tmp_path, run=run_info(f"20261129T101112Z-agent-tiny-{name}"), requests=8) for name in "xy"]
    text = build_report(paths, tmp_path / "out").index_md.read_text("utf-8")
    assert "## A: 20261129T101112Z-agent-tiny-x" in text
    assert "| B | 32 |" in text


def test_the_same_records_give_the_same_pictures(tmp_path: Path) -> None:
    path = write_run(tmp_path, requests=8)
    first = build_report([path], tmp_path / "a")
    second = build_report([path], tmp_path / "b")
    for one, other in zip(first.figures, second.figures, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_what_is_no_run_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a run folder"):
        build_report([tmp_path], tmp_path / "out")
    with pytest.raises(ValueError, match="at least one run"):
        build_report([], tmp_path / "out")


def test_the_terminal_table_does_not_load_the_heavy_libraries() -> None:
    code = "import sys, harness.report.terminal; print(sorted({'pandas', 'matplotlib', 'jinja2'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_tables_of_a_run_are_frames_in_a_notebook(tmp_path: Path) -> None:
    run = RunFolder.open(write_run(tmp_path, levels=(1, 8)))
    frames = {table.slug: table.frame() for table in run_tables([load_run(run).summary])}
    latencies = frames["ttft_tpot"]
    assert len(latencies) == 2
    assert latencies["p50_ttft_ms"].gt(0).all()
    build_report([run.path], tmp_path / "out")
    written = pd.read_csv(tmp_path / "out" / "ttft_tpot.csv")
    pd.testing.assert_frame_equal(written.filter(like="_ms"), latencies.filter(like="_ms"))
