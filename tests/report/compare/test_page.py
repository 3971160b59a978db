"""The page of a comparison: whole in one file, sides named, what is published marked as such."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.report.compare.comparison import compare
from harness.report.compare.figures import draw
from harness.report.compare.page import write_comparison
from harness.report.compare.published import load_published
from harness.report.compare.sides import measured_side, published_side
from harness.report.compare.terminal import comparison_json, comparison_text
from harness.store import RunFolder
from tests.report.compare.build import OPTIONS, side, write_side
from tests.report.compare.test_memory import arithmetic


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    options = {**OPTIONS, "dataset_name": "agent", "num_prompts": 20, "output_tokens": 17, "seed": 7}
    more = {"contexts": (512, 2_048), "levels": (1, 8), "sessions": 10, "rounds": 1, "options": options}
    one = write_side(folder, "aaaaaa", model="hybrid<b>", **more)  # type: ignore[arg-type]
    two = write_side(folder, "bbbbbb", tpot_ms=lambda context: 14.0, **more)  # type: ignore[arg-type]
    published = load_published("ling-3.1-flash-4xgb300")
    assert published is not None
    comparison = compare(
        [side(one, "A"), side(two, "B"), published_side("C", published)],
        prices={"A": 3.6, "B": 7.2},
        memory={"A": arithmetic("A", "ling-mini"), "B": arithmetic("B", "ling-mini-attention")},
    )
    write_comparison(comparison, folder / "out", overlooked=["plan: differs"])
    return folder / "out"


def test_the_page_needs_nothing_beside_it(page: Path) -> None:
    html = (page / "index.html").read_text()
    sources = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert sources and all(each.startswith("data:") for each in sources)
    assert "<script" not in html


def test_names_from_outside_cannot_break_the_page(page: Path) -> None:
    html = (page / "index.html").read_text()
    assert "hybrid<b>" not in html
    assert "hybrid&lt;b&gt;" in html


def test_what_is_published_is_marked(page: Path) -> None:
    html = (page / "index.html").read_text()
    assert "not measured here" in html
    assert "5.14 ms" in html


def test_what_a_reader_must_know_is_there(page: Path) -> None:
    html = (page / "index.html").read_text()
    for words in ("plan: differs", "did not take turns", "One round", "level at 83 tokens", "a million output tokens"):
        assert words in html, words
    asked = "Asked: the agent workload, 20 measured requests a cell, answers of at most 17 tokens, a cache cold at"
    assert asked in html and "TTFT is the time to the first token" in html


def test_a_side_with_more_points_has_a_tick_at_each(tmp_path: Path) -> None:
    one = write_side(tmp_path, "aaaaaa", levels=(1, 8, 32), sessions=10, rounds=1)
    two = write_side(tmp_path, "bbbbbb", levels=(1, 8), sessions=10, rounds=1)
    comparison = compare([side(one, "A"), side(two, "B")], metrics=("median_tpot_ms",))
    (drawing,) = draw(comparison)
    values, ratios = drawing.figure.axes
    assert values.get_xticks().tolist() == [1, 8, 32] and ratios.get_xticks().tolist() == [1, 8]


def test_tables_and_pictures_lie_beside_it(page: Path) -> None:
    names = {path.name for path in page.iterdir()}
    assert {"index.md", "ratio_output_throughput.csv", "compare_median_tpot_ms.png", "cost.csv", "lengths.csv"} <= names
    header = (page / "ratio_output_throughput.csv").read_text().splitlines()[0]
    assert header == "context_tokens,concurrency,A,B,B/A,B/A_low,B/A_high"


def test_three_runs_are_each_divided_by_the_first(tmp_path: Path) -> None:
    paths = [write_side(tmp_path, token, sessions=10) for token in ("aaaaaa", "bbbbbb", "cccccc")]
    comparison = compare([side(path, letter) for path, letter in zip(paths, "ABC", strict=True)])
    assert {(each.first_letter, each.letter) for each in comparison.ratios} == {("A", "B"), ("A", "C")}
    write_comparison(comparison, tmp_path / "out")
    assert "C/A (95% interval)" in (tmp_path / "out" / "index.html").read_text()


def test_the_sides_of_a_duel_took_turns(tmp_path: Path) -> None:
    paths = [write_side(tmp_path, token, options={"duel": "d1"}, sessions=10) for token in ("aaaaaa", "bbbbbb")]
    comparison = compare([side(paths[0], "A"), side(paths[1], "B")])
    assert comparison.interleaved
    assert "did not take turns" not in comparison_text(comparison)


def test_json_holds_no_infinity(tmp_path: Path) -> None:
    paths = [write_side(tmp_path, token, contexts=(512, 2_048), sessions=10) for token in ("aaaaaa", "bbbbbb")]
    document = comparison_json(compare([side(paths[0], "A"), side(paths[1], "B")]))
    assert "inf" not in str(document["crossovers"])


def test_runs_without_a_common_point_cannot_be_compared(tmp_path: Path) -> None:
    one, two = write_side(tmp_path, "aaaaaa", levels=(1,)), write_side(tmp_path, "bbbbbb", levels=(8,))
    with pytest.raises(ValueError, match="in common"):
        compare([side(one, "A"), side(two, "B")])


def test_unfinished_cells_are_left_out_and_named(tmp_path: Path) -> None:
    path = write_side(tmp_path, "aaaaaa", levels=(1, 8), rounds=1)
    (path / "agent-n0002048-c0008-r0" / "cell.json").unlink()
    with RunFolder.open(path) as run:
        found = measured_side("A", run)
    assert found.left_out == ("agent-n0002048-c0008-r0",)
    assert [point.load.text for point in found.rounds] == ["1"]
