"""`selftest` the way a user meets it: one fault, one check, one engine."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.commands import run_ling_bench


def test_a_planted_fault_is_found_over_http_and_the_run_is_kept(tmp_path: Path) -> None:
    result = run_ling_bench("selftest", "--faults", "K33:missing", "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    (fault,) = document["faults"]
    assert fault["code"] == "K33" and "stream" in fault["detected_by"]
    assert fault["requests"]["stream"] > 0
    assert document["healthy"]["runs"] == 0
    run = tmp_path / document["run"]
    assert (run / "selftest.json").exists() and (run / fault["run"] / "run.json").exists()
    assert "K33:missing" in (tmp_path / "reports" / run.name / "index.html").read_text()
