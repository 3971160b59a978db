"""The headline command against the embedded engine: what it prints, keeps and draws."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commands import cells, run_ling_bench

KEY = "sk-never-on-disk-0123456789"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """Folder, stdout and stderr of one small sweep with the engine started by the command itself."""
    folder = tmp_path_factory.mktemp("sweep")
    result = run_ling_bench(
        *("sweep", "--concurrency", "1,4", "--num-prompts", "16", "--goodput", "ttft:60000", "--goodput", "tpot:60000"),
        *("--api-key", KEY, "--header", f"X-Secret: {KEY}-header", "--note", "image=none"),
        cwd=folder,
    )
    assert result.returncode == 0, result.stderr
    return folder, result.stdout, result.stderr


def run_folder(finished: tuple[Path, str, str]) -> Path:
    return finished[0] / finished[1].splitlines()[-1]


def test_the_first_line_names_the_target_and_the_last_the_run_folder(finished: tuple[Path, str, str]) -> None:
    assert finished[2].startswith("target: the embedded engine (chosen because")
    assert "cost: 2 cells" in finished[2]
    assert run_folder(finished).is_dir()


def test_every_request_completes_and_turns_hit_the_cache(finished: tuple[Path, str, str]) -> None:
    for cell in cells(run_folder(finished)).values():
        assert (cell["completed"], cell["failed"]) == (16, 0)
        assert 0.2 < float(str(cell["cached_share"])) < 1
        assert cell["request_goodput"] == pytest.approx(cell["request_throughput"])


def test_a_run_is_a_folder_of_plain_records(finished: tuple[Path, str, str]) -> None:
    run = run_folder(finished)
    names = {path.name for path in run.iterdir()}
    assert {"run.json", "plan.jsonl", "prompts", "metrics.json", "summary.json"} <= names
    for cell in ("agent-c0001", "agent-c0004"):
        assert {"history.jsonl", "times.u32", "cell.json"} <= {path.name for path in (run / cell).iterdir()}
    info = json.loads((run / "run.json").read_text())
    assert info["target"]["chosen_by"] == "embedded"
    assert info["notes"] == {"image": "none"}


def test_a_key_reaches_no_file_and_no_output(finished: tuple[Path, str, str]) -> None:
    folder, out, err = finished
    assert KEY not in out + err
    for path in folder.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path


def test_the_report_is_rebuilt_from_the_records_alone(finished: tuple[Path, str, str]) -> None:
    run = run_folder(finished)
    before = cells(run)
    for name in ("summary.json", "metrics.json"):
        (run / name).unlink()
    result = run_ling_bench("report", str(run), cwd=finished[0])
    assert result.returncode == 0, result.stderr
    assert cells(run) == before
    page = finished[0] / result.stdout.splitlines()[-1]
    text = page.read_text()
    assert "embedded" in text and "http://" not in text.replace("http://127.0.0.1", "").replace("http://www.w3.org", "")
    assert {"index.md", "index.html"} <= {path.name for path in page.parent.iterdir()}
    assert (
        list(page.parent.glob("**/*.png")) and list(page.parent.glob("**/*.svg")) and list(page.parent.glob("**/*.csv"))
    )


def test_list_shows_the_run(finished: tuple[Path, str, str]) -> None:
    result = run_ling_bench("list", cwd=finished[0])
    assert result.returncode == 0
    assert run_folder(finished).name in result.stdout and "2 cells" in result.stdout


def test_json_is_the_only_thing_on_stdout(tmp_path: Path) -> None:
    result = run_ling_bench(
        "sweep", "--concurrency", "2", "--num-prompts", "4", "--dataset-name", "random", "--random-input-len", "64",
        "--random-output-len", "8", "--endpoint-type", "completions", "--json", cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert [cell["concurrency"] for cell in document["cells"]] == [2]
    assert (tmp_path / document["run"]).is_dir() or Path(document["run"]).is_dir()


def test_all_requests_failing_exits_1_with_the_reason(tmp_path: Path) -> None:
    result = run_ling_bench(
        "sweep", "--concurrency", "2", "--num-prompts", "4", "--extra-body", '{"temperature": -5}', cwd=tmp_path
    )
    assert result.returncode == 1, result.stderr
    assert "every request failed" in result.stderr and "400" in result.stderr


@pytest.mark.slow
def test_a_search_ends_with_a_confirmed_limit(tmp_path: Path) -> None:
    result = run_ling_bench(
        "sweep", "--auto", "--goodput", "ttft:60000", "--auto-max", "4", "--num-prompts", "8", "--output-len", "8",
        "--json", cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    (run,) = (tmp_path / "results").iterdir()
    found = json.loads((run / "limit.json").read_text())
    assert found["limit"] == 4 and found["trials"][-1]["confirms"]
    assert [cell["bound"] for cell in json.loads(result.stdout)["cells"]]
    resume_the_search(run, found, tmp_path)


def resume_the_search(run: Path, found: dict[str, Any], cwd: Path) -> None:
    """Without its last cell the search is as if it had been stopped there: it walks over the others and ends alike."""
    cells = sorted(path.parent for path in run.glob("*/cell.json"))
    kept = {cell.name: (cell / "history.jsonl").read_bytes() for cell in cells[:-1]}
    (run / "limit.json").unlink()
    shutil.rmtree(cells[-1])
    result = run_ling_bench("sweep", "--resume", str(run), cwd=cwd)
    assert result.returncode == 0, result.stderr
    again = json.loads((run / "limit.json").read_text())
    assert [trial["load"] for trial in again["trials"]] == [trial["load"] for trial in found["trials"]]
    assert {name: (run / name / "history.jsonl").read_bytes() for name in kept} == kept
