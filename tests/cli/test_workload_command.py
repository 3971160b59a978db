"""`ling-bench workload`: looking at what may be asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.workload import workload
from workloads.registry import FAMILIES

TRACES = Path(__file__).resolve().parents[1] / "fixtures" / "traces"


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(workload, arguments, standalone_mode=code != 0)
    if code:
        assert result.exit_code == code, result.output
    else:
        assert result.exception is None, result.output
    return result.output


def test_list_names_every_workload_and_format() -> None:
    shown = run("list")
    assert all(name in shown for name in (*FAMILIES, "mooncake", "sharegpt"))


def test_show_prints_a_session_as_text() -> None:
    shown = run("show", "agent", "--num-prompts", "8", "--session", "1")
    assert "[system]" in shown and "[tool]" in shown and shown.count("=== request") > 1


def test_a_session_that_is_not_there_is_a_usage_error() -> None:
    assert "--session" in run("show", "text", "--num-prompts", "2", "--session", "9", code=2)


def test_stats_of_generated_agents_stand_beside_the_recorded_ones() -> None:
    content = json.loads(run("stats", "agent", "--sessions", "120", "--json"))
    assert content["sessions"] == 120 and content["requests"] > 4000
    assert set(content["input_tokens"]) == set(content["output_tokens"]) == {"p50", "p90", "p99"}
    assert content["infinite_cache_token_hit"] == pytest.approx(0.96, abs=0.02)
    assert content["against"]["calls_per_session"]["n"] == 710


def test_stats_of_a_trace(tmp_path: Path) -> None:
    picture = tmp_path / "p.png"
    shown = run("stats", "trace", "--dataset-path", str(TRACES / "mooncake_head.jsonl"), "--picture", str(picture))
    assert "60 requests" in shown and picture.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("name", ["openai", "custom", "mooncake"])
def test_what_is_exported_reads_back(tmp_path: Path, name: str) -> None:
    path = tmp_path / "out.jsonl"
    run("export", "agent", "--format", name, "--num-prompts", "12", "--output", str(path))
    content = json.loads(run("stats", "trace", "--dataset-path", str(path), "--json"))
    own = json.loads(run("stats", "agent", "--input-len", "1536", "--num-prompts", "12", "--json"))
    assert content["requests"] == 12
    assert content["input_tokens"]["p50"] == pytest.approx(own["input_tokens"]["p50"], rel=0.1)
    if name == "mooncake":
        assert content["infinite_cache_token_hit"] > 0.2


def test_a_fitted_profile_drives_the_agents(tmp_path: Path) -> None:
    sessions, path = tmp_path / "sessions", tmp_path / "profile.json"
    sessions.mkdir()
    for trace in TRACES.glob("trace_*.json"):
        (sessions / trace.name).write_text(trace.read_text())
    run("fit", str(sessions), "--output", str(path))
    content = json.loads(run("stats", "agent", "--agent-profile", str(path), "--sessions", "40", "--json"))
    assert 7 <= content["calls_per_session"]["p50"] <= 8


def test_a_trace_that_says_too_little_cannot_be_fitted(tmp_path: Path) -> None:
    shown = run("fit", str(TRACES / "azure_head.csv"), "--output", str(tmp_path / "p"), code=2)
    assert "does not tell enough" in shown


def test_a_bad_row_is_named_by_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"prompt": "a"}\n{"prompt": 3}\n')
    assert "t.jsonl:2: prompt is not text" in run("stats", "trace", "--dataset-path", str(path), code=2)
    assert "1 requests" in run("stats", "trace", "--dataset-path", str(path), "--skip-bad-rows")
