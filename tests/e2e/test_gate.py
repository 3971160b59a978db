"""The gate, the way an operator meets it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.e2e.commands import clean_environment, engine, run_ling_bench, start_ling_bench

STREAM = '[[check]]\nname = "stream"\n'
MTP = '[[check]]\nname = "mtp"\n'
COUNTS = '[[check]]\nname = "cached-tokens"\n'
OBJECTIVE = """
[[objective]]
name = "agents"
concurrency = [2]
num_prompts = 4
output_len = 8
[[objective.slo]]
metric = "p99_ttft_ms"
max = 60_000
"""


def profile(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text('name = "mine"\nbudget = "small"\n' + text)
    return str(path)


def gate_json(folder: Path, *arguments: str) -> dict[str, object]:
    result = run_ling_bench("gate", *arguments, "--json", cwd=folder)
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    assert found["exit_code"] == result.returncode, result.stderr
    return found


def rows(found: dict[str, object]) -> list[dict[str, str]]:
    listed = found["checks"]
    assert isinstance(listed, list)
    return listed


def test_a_profile_is_written_planned_and_refused_with_its_line(tmp_path: Path) -> None:
    written = run_ling_bench("gate", "--init", "--profile", "smoke", cwd=tmp_path)
    assert written.stdout.strip() == "gate.toml"
    planned = run_ling_bench("gate", "--profile", "gate.toml", "--dry-run", cwd=tmp_path)
    assert planned.returncode == 0
    assert "requests and at most" in planned.stdout
    again = run_ling_bench("gate", "--init", cwd=tmp_path)
    assert again.returncode == 2
    text = (tmp_path / "gate.toml").read_text()
    (tmp_path / "gate.toml").write_text(text.replace('budget = "small"', 'budget = "tiny"'))
    wrong = run_ling_bench("gate", "--profile", "gate.toml", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "gate.toml, line" in wrong.stderr and "one of small, normal, thorough" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    missing = run_ling_bench("gate", "--profile", "nowhere.toml", cwd=tmp_path)
    assert missing.returncode == 2 and "--init" in missing.stderr


@pytest.mark.slow
def test_a_gate_leaves_its_files_and_is_judged_again_under_another_profile(tmp_path: Path) -> None:
    mine = profile(tmp_path, STREAM + MTP + OBJECTIVE)
    with engine() as url:
        result = run_ling_bench("gate", "--profile", mine, "--base-url", url, "--out", "ci", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    run = tmp_path / result.stdout.splitlines()[-1]
    found = json.loads((run / "gate.json").read_text())
    assert {"verdict", "exit_code", "checks"} <= set(found)
    statuses = {row["name"]: row["status"] for row in found["checks"]}
    assert statuses == {
        "stream": "pass", "mtp": "not applicable", "objective agents": "pass", "heartbeat between phases": "pass",
        "soundness": "pass",
    }  # fmt: skip
    suite = ElementTree.fromstring((tmp_path / "ci" / "junit.xml").read_text()).find("testsuite")
    assert suite is not None and (suite.get("failures"), suite.get("skipped")) == ("0", "1")
    assert "| PASS | stream |" in (tmp_path / "ci" / "summary.md").read_text()
    page = (tmp_path / "reports" / run.name / "index.html").read_text()
    assert "exit code 0" in page and f'href="#{run.name}-stream"' in page and f'id="{run.name}-stream"' in page

    strict = tmp_path / "strict.toml"
    strict.write_text(Path(mine).read_text().replace("max = 60_000", "max = 0.001") + '[[check]]\nname = "tools"\n')
    again = run_ling_bench("judge", str(run), "--profile", "strict.toml", "--json", cwd=tmp_path)
    judged = {row["name"]: row["status"] for row in json.loads(again.stdout)["checks"]}
    assert again.returncode == 1
    assert (judged["objective agents"], judged["tools"]) == ("fail", "inconclusive")
    own = run_ling_bench("judge", str(run), "--json", cwd=tmp_path)
    assert {row["name"]: row["status"] for row in json.loads(own.stdout)["checks"]} == statuses


@pytest.mark.slow
def test_the_examples_of_the_documentation_run(tmp_path: Path) -> None:
    """The tests, and the script of the workflow's step as its runner starts it."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "gate.md").read_text()
    example = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    script = re.search(r"run: \|\n((?: {10}.*\n)+)", page)
    assert example is not None and script is not None
    (tmp_path / "test_deployment.py").write_text(example.group(1))
    mine = profile(tmp_path, STREAM)
    (tmp_path / "step.sh").write_text(textwrap.dedent(script.group(1)).replace("--profile smoke", f"--profile {mine}"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with engine() as url:
        own = {"OPENAI_BASE_URL": url, "GATE_PROFILE": mine, "PATH": path, "GITHUB_STEP_SUMMARY": "page.md"}
        for command in ([sys.executable, "-m", "pytest", "-q", "test_deployment.py"], ["bash", "-e", "step.sh"]):
            done = subprocess.run(
                command,
                cwd=tmp_path,
                env=clean_environment(own),
                capture_output=True,
                text=True,
                timeout=200,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
    assert "ling-bench gate: PASS" in (tmp_path / "page.md").read_text()
    assert (tmp_path / "gate" / "junit.xml").is_file()


@pytest.mark.slow
def test_a_planted_fault_fails_and_its_check_leads(tmp_path: Path) -> None:
    mine = profile(tmp_path, "fail_fast = true\n" + STREAM + COUNTS + MTP)
    with engine("--fault", "K32:mode=negative") as url:
        found = gate_json(tmp_path, "--profile", mine, "--base-url", url)
    assert found["exit_code"] == 1
    assert rows(found)[0]["name"] in ("stream", "cached-tokens")
    assert rows(found)[0]["status"] == "fail"
    assert rows(found)[0]["evidence"]
    assert {row["name"]: row["status"] for row in rows(found)}["mtp"] == "inconclusive"
    run = next((tmp_path / "results").iterdir())
    again = json.loads(run_ling_bench("judge", str(run), "--json", cwd=tmp_path).stdout)
    reasons = [{row["name"]: row["reason"] for row in rows(each)}["mtp"] for each in (found, again)]
    assert reasons[0] == reasons[1] and "--fail-fast stopped after" in reasons[0]


@pytest.mark.slow
def test_required_and_switched_off_is_undecided_with_the_flag(tmp_path: Path) -> None:
    mine = profile(tmp_path, 'require = ["cached-tokens", "speculation"]\n' + STREAM)
    with engine("--no-cache-report") as url:
        found = gate_json(tmp_path, "--profile", mine, "--base-url", url)
    assert (found["exit_code"], found["verdict"]) == (3, "inconclusive")
    reasons = {row["name"]: row["reason"] for row in rows(found)}
    assert "--enable-prompt-tokens-details" in reasons["require cached-tokens"]
    assert "--speculative-config" in reasons["require speculation"]


@pytest.mark.slow
def test_an_interrupted_gate_is_completed(tmp_path: Path) -> None:
    mine = profile(tmp_path, STREAM + COUNTS)
    with engine() as url:
        process = start_ling_bench("gate", "--profile", mine, "--base-url", url, cwd=tmp_path)
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("stream: pass"):
                break
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "--resume" in said
        run = next((tmp_path / "results").iterdir())
        before = (run / "stream-r0" / "history.jsonl").read_bytes()
        result = run_ling_bench("gate", "--resume", str(run), "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (run / "stream-r0" / "history.jsonl").read_bytes() == before
    statuses = {row["name"]: row["status"] for row in json.loads(result.stdout)["checks"]}
    assert statuses["cached-tokens"] == "pass"
