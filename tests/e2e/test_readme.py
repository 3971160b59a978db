"""What the README tells a newcomer to type."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.e2e.commands import clean_environment, run_ling_bench

ROOT = Path(__file__).resolve().parents[2]


def commands() -> list[str]:
    """Every line of the README's sh blocks, comments cut off."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    return [line.split("#")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


def sweeps() -> list[str]:
    return [line for line in commands() if line.startswith("ling-bench sweep")]


def test_the_two_commands_of_a_newcomer_are_there() -> None:
    assert {"make sweep", "make test"} <= set(commands())
    assert "make test" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("line", sweeps())
def test_a_sweep_of_the_readme_is_accepted(line: str, tmp_path: Path) -> None:
    arguments = [os.path.expandvars(word) for word in shlex.split(line)[1:]]
    dry = [] if "--dry-run" in arguments else ["--dry-run"]
    result = run_ling_bench(*arguments, *dry, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "cost:" in result.stdout


@pytest.mark.parametrize("line", [line for line in commands() if line.startswith("ling-bench ")])
def test_every_command_of_the_readme_exists(line: str, tmp_path: Path) -> None:
    assert run_ling_bench(line.split()[1], "--help", cwd=tmp_path).returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_make_sweep_works_from_a_clean_clone(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    result = subprocess.run(
        ["make", "--no-print-directory", "sweep"],  # make inside make would print folders of its own
        cwd=clone,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    run = clone / result.stdout.splitlines()[-1]
    assert (run / "summary.json").exists()
    assert (clone / "reports" / run.name / "index.html").exists()
