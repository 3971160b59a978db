"""`check isolation` against the embedded engine, once sound and once with two sequences in one slot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.commands import engine, run_ling_bench


def verdict(tmp_path: Path, *arguments: str) -> tuple[int, dict[str, object]]:
    with engine("--noise", "bf16", *arguments) as url:
        result = run_ling_bench(
            "check", "isolation", "--base-url", url, "--exclusive-server", "--budget", "small", "--json", cwd=tmp_path
        )
    document = json.loads(result.stdout)
    return result.returncode, document["checks"][0]["verdict"]


def test_two_sequences_in_one_slot_fail_by_a_foreign_codeword(tmp_path: Path) -> None:
    code, found = verdict(tmp_path, "--fault", "K12")
    assert code == 1 and found["status"] == "fail"
    assert "foreign codeword" in str(found["reason"])


@pytest.mark.slow
def test_a_sound_engine_passes_and_repeats_nearly_every_codeword(tmp_path: Path) -> None:
    code, found = verdict(tmp_path, "--speculative-tokens", "3")
    assert code == 0 and found["status"] == "pass"
    details = found["details"]
    assert isinstance(details, dict)
    recalled, asked = str(details["recalled_alone"]).split(" of ")
    assert int(asked) >= 20 and int(recalled) >= 0.85 * int(asked)
    assert details["dropped"] > 0
