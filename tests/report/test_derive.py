from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from harness.report.derive import derive
from harness.report.warnings import EMBEDDED
from harness.store import RunFolder
from tests.report.synthetic import write_run
from tests.store.samples import round_plan, run_info


def test_summary_json_has_a_flat_object_per_level(tmp_path: Path) -> None:
    path = write_run(tmp_path)
    derive(RunFolder.open(path))
    document = orjson.loads((path / "summary.json").read_bytes())
    assert document["run"] == str(path)
    assert (document["target"], document["chosen_by"]) == ("http://127.0.0.1:8000", "option")
    assert [cell["concurrency"] for cell in document["cells"]] == [1, 8, 32]
    first = document["cells"][0]
    assert (first["completed"], first["failed"]) == (96, 2)
    assert first["cached_share"] == pytest.approx(0.9, abs=0.01)
    assert {"output_throughput", "mean_ttft_ms", "p99_tpot_ms", "request_goodput", "median_itl_ms"} <= first.keys()


def test_metrics_json_gives_each_metric_its_unit_count_and_note(tmp_path: Path) -> None:
    path = write_run(tmp_path, cached=False)
    derive(RunFolder.open(path))
    cells = orjson.loads((path / "metrics.json").read_bytes())["cells"]
    metrics = {each["name"]: each for each in cells[0]["metrics"]}
    assert metrics["mean_ttft_ms"]["unit"] == "ms"
    assert metrics["mean_ttft_ms"]["count"] == 96
    assert metrics["cached_share"]["value"] is None
    assert metrics["cached_share"]["note"] == "cached tokens not reported by 96 of 96 requests"


def test_deriving_again_from_the_records_gives_the_same_files(tmp_path: Path) -> None:
    path = write_run(tmp_path)
    derive(RunFolder.open(path))
    before = {name: (path / name).read_bytes() for name in ("summary.json", "metrics.json")}
    for name in before:
        (path / name).unlink()
    derive(RunFolder.open(path))
    assert {name: (path / name).read_bytes() for name in before} == before


def test_percentiles_come_from_the_run_unless_given(tmp_path: Path) -> None:
    info = replace(run_info(), options={"metric_percentiles": [25, 99.9]})
    run = RunFolder.open(write_run(tmp_path, run=info))
    assert derive(run).percentiles == (25.0, 99.9)
    assert derive(run, [75]).cells[0].value("p75_ttft_ms") is not None


def test_an_unfinished_cell_is_summarised_with_what_is_there(tmp_path: Path) -> None:
    summary = derive(RunFolder.open(write_run(tmp_path, unfinished=[8])))
    cell = summary.cells[1]
    assert (cell.finished, cell.concurrency, cell.workload) == (False, 8, "agent")
    assert cell.value("completed") == 95
    assert any("unfinished" in text for text in cell.warnings)
    assert any("without an answer on record" in text for text in cell.warnings)


def test_a_planned_cell_that_was_never_begun_is_named(tmp_path: Path) -> None:
    run = RunFolder.open(write_run(tmp_path, levels=[1]))
    run.plan_round(round_plan("c64"))
    assert "planned but never begun: c64" in derive(run).warnings


def test_embedded_figures_carry_their_warning(tmp_path: Path) -> None:
    info = run_info()
    embedded = replace(info, target=replace(info.target, chosen_by="embedded"))
    assert EMBEDDED in derive(RunFolder.open(write_run(tmp_path / "a", run=embedded))).warnings
    assert EMBEDDED not in derive(RunFolder.open(write_run(tmp_path / "b"))).warnings
