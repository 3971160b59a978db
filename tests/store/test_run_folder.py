from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from harness.store import RunFolder, StoreError, list_runs, new_run_id, read_cell
from tests.store import samples

NOW = datetime(2026, 11, 29, 10, 11, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("inclusionAI/Ling-3.1-flash", "20261129T101112Z-agent-Ling-3.1-flash-3fa9c1"),
        ("/models/tiny.gguf", "20261129T101112Z-agent-tiny.gguf-3fa9c1"),
        ("../..", "20261129T101112Z-agent-3fa9c1"),
        ("modèle très long " + "x" * 200, "20261129T101112Z-agent-modele-tres-long-" + "x" * 23 + "-3fa9c1"),
    ],
)
def test_a_run_is_named_after_time_workload_and_model(model: str, name: str) -> None:
    assert new_run_id(NOW, "agent", model, "3fa9c1") == name


def test_run_json_is_there_before_anything_else(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "results", samples.run_info())
    assert sorted(each.name for each in run.path.iterdir()) == ["prompts", "run.json"]
    assert RunFolder.open(run.path).info == samples.run_info()


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, samples.run_info())
    with pytest.raises(StoreError, match="File exists"):
        RunFolder.create(tmp_path, samples.run_info())


def test_a_newer_run_json_is_read_and_its_new_fields_counted(tmp_path: Path) -> None:
    path = RunFolder.create(tmp_path, samples.run_info()).path / "run.json"
    values = orjson.loads(path.read_bytes())
    values |= {"schema_version": 9, "region": "north"}
    del values["notes"]
    path.write_bytes(orjson.dumps(values))
    run = RunFolder.open(path.parent)
    assert run.info.schema_version == 9
    assert run.info.notes == {}
    assert run.unread_fields == {"RunInfo.region": 1}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"run_id": 3}'])
def test_a_damaged_run_json_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(StoreError, match=r"run\.json cannot be read"):
        RunFolder.open(tmp_path)


def test_a_folder_without_run_json_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a run folder"):
        RunFolder.open(tmp_path)


def test_rounds_are_appended_and_survive_a_torn_line(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, samples.run_info())
    run.plan_round(samples.round_plan("c1"))
    with (run.path / "plan.jsonl").open("ab") as file:
        file.write(b'{"type":"round","cel')
    run.plan_round(samples.round_plan("c8"))
    assert RunFolder.open(run.path).rounds() == (samples.round_plan("c1"), samples.round_plan("c8"))


def test_a_prompt_is_kept_once_under_its_hash(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, samples.run_info()) as run:
        run.prompt("aa", b"hello")
        run.prompt("aa", b"hello")
        run.prompt("bb", b"other")
    assert sorted(each.name for each in (run.path / "prompts").iterdir()) == ["aa", "bb"]
    assert run.read_prompt("aa") == b"hello"
    with pytest.raises(StoreError, match="cc"):
        run.read_prompt("cc")


def test_cells_come_in_planned_order(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, samples.run_info()) as run:
        for name in ("c32", "c1", "c8"):
            run.plan_round(samples.round_plan(name))
        run.plan_round(samples.round_plan("never-begun"))
        for name in ("c1", "c8", "c32", "a-stray"):
            run.cell(name).close()
    assert run.cells() == ("c32", "c1", "c8", "a-stray")


def test_an_unfinished_cell_is_moved_aside_and_redone_with_new_ids(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, samples.run_info()) as run:
        ids = set()
        for attempt in range(3):
            writer = run.cell("c1")
            assert writer.attempt == attempt
            ids.add(writer.next_request_id())
            writer.close()
        assert len(ids) == 3
        assert run.aborted_cells() == ("c1.aborted-1", "c1.aborted-2")
        assert run.cells() == ("c1",)
        assert read_cell(run, "c1.aborted-1").info is None


def test_a_cell_folder_without_history_is_moved_aside_too(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, samples.run_info()) as run:
        (run.path / "c1").mkdir()
        run.cell("c1").close()
        run.cell("c1").close()
        assert run.aborted_cells() == ("c1.aborted-1", "c1.aborted-2")


def test_a_finished_cell_is_never_opened_again(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, samples.run_info()) as run:
        run.cell("c1").finish(samples.cell_info())
        with pytest.raises(StoreError, match="is finished"):
            run.cell("c1")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "prompts", "c1.aborted-1", "-x", "a\n"])
def test_a_cell_cannot_be_named_so_that_it_leaves_its_folder(tmp_path: Path, name: str) -> None:
    run = RunFolder.create(tmp_path, samples.run_info())
    with pytest.raises(StoreError, match="name of a cell"):
        run.cell(name)


def test_list_runs_shows_what_is_finished_and_what_cannot_be_read(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, samples.run_info("20260101T000000Z-a-b-c")) as run:
        run.cell("c1").finish(samples.cell_info())
        run.cell("c8").close()
    (tmp_path / "20270101T000000Z-broken").mkdir()
    (tmp_path / "20270101T000000Z-broken" / "run.json").write_text("{")
    (tmp_path / "not-a-run").mkdir()
    good, broken = list_runs(tmp_path)
    assert (good.finished, good.unfinished, good.error) == (("c1",), ("c8",), None)
    assert broken.info is None
    assert broken.error is not None
    assert list_runs(tmp_path / "missing") == []
