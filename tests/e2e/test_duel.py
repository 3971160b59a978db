"""`ling-bench duel` against real servers: turns taken, the same asked of both, a cold cache refused; what the
architectures promise, measured on the embedded engine; a real llama-server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cli.memory import named_model
from harness.memory.sequence import KvDtype, Setting
from harness.report.compare.memory import MemoryModelOf, break_even
from harness.store import RunFolder, read_cell
from tests.e2e.commands import clean_environment, engine, run_ling_bench
from tests.servers.llama_server import start_llama_server
from tests.servers.tiny_llama import write_tiny_llama
from tests.servers.usage_only import usage_only_server

HYBRID = ("--arch", "hybrid", "--model-name", "ling-mini")
ATTENTION = ("--arch", "attention", "--model-name", "ling-mini-attention")
PRESETS = ("--a-preset", "ling-mini", "--b-preset", "ling-mini-attention", "--kv-dtype", "fp32")


def duel(cwd: Path, a: str, b: str, *more: str, timeout_s: float = 280) -> dict[str, Any]:
    """One duel that must succeed; its JSON document."""
    result = run_ling_bench("duel", "--a", a, "--b", b, "--json", *more, cwd=cwd, timeout_s=timeout_s)
    assert result.returncode == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def run_of(document: dict[str, Any], index: int, cwd: Path) -> RunFolder:
    return RunFolder.open(cwd / document["sides"][index]["run"])


@pytest.fixture(scope="module")
def embedded() -> Iterator[tuple[str, str]]:
    with engine(*HYBRID) as hybrid, engine(*ATTENTION) as attention:
        yield hybrid, attention


@pytest.fixture(scope="module")
def small_duel(embedded: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("duel")
    size = ("--context", "512", "--concurrency", "1,4", "--num-prompts", "12", "--output-len", "8", "--ignore-eos")
    return folder, duel(folder, *embedded, *size, *PRESETS)


@pytest.mark.slow
def test_exact_lengths_are_those_of_side_a(tmp_path: Path) -> None:
    size = ("--context", "200,300", "--concurrency", "1", "--num-prompts", "4", "--output-len", "1", "--rounds", "1")
    with usage_only_server() as url:
        document = duel(tmp_path, url, url, "--dataset-name", "repeat", "--exact-lengths", "--anyway", *size)
    for run in (run_of(document, index, tmp_path) for index in (0, 1)):
        for plan in run.rounds():
            usages = [record.complete.usage for record in read_cell(run, plan.cell).records]
            sent = {usage.prompt_tokens for usage in usages if usage is not None}
            assert plan.context_tokens is None or sent == {plan.context_tokens}


def test_both_sides_are_asked_the_same_and_take_turns(small_duel: tuple[Path, dict[str, Any]]) -> None:
    folder, document = small_duel
    runs = [run_of(document, index, folder) for index in (0, 1)]
    assert {plan.digest for plan in runs[0].rounds()} == {plan.digest for plan in runs[1].rounds()}
    begun = [
        (read_cell(run, cell).info, letter) for run, letter in zip(runs, "AB", strict=True) for cell in run.cells()
    ]
    order = sorted(
        (info.window_start_ns, letter) for info, letter in begun if info is not None and info.window_start_ns
    )
    assert "".join(letter for _, letter in order) == "ABBAABBA"


def test_ratios_are_paired_and_have_intervals(small_duel: tuple[Path, dict[str, Any]]) -> None:
    _, document = small_duel
    tpot = [each for each in document["ratios"] if each["figure"] == "median_tpot_ms"]
    assert [each["concurrency"] for each in tpot] == [1, 4]
    for each in tpot:
        assert (each["method"], each["pairs"], each["rounds"]) == ("paired by request", 24, 2)
        assert each["low"] < each["ratio"] < each["high"]


def test_the_page_states_lengths_in_tokens_and_characters(small_duel: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = small_duel
    [page] = folder.glob("reports/compare-*/index.html")
    html = page.read_text()
    assert "A tokens" in html and "B characters" in html
    assert "level at 83 tokens" in html


def test_the_runs_of_a_duel_can_be_compared_again(small_duel: tuple[Path, dict[str, Any]]) -> None:
    folder, document = small_duel
    runs = [side["run"] for side in document["sides"]]
    again = run_ling_bench("compare", *runs, "--json", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["ratios"] == document["ratios"]


def test_a_side_without_a_cache_is_refused(embedded: tuple[str, str], tmp_path: Path) -> None:
    size = ("--context", "512", "--concurrency", "4", "--num-prompts", "12", "--output-len", "4")
    with engine(*HYBRID, "--no-prefix-caching") as cold:
        result = run_ling_bench("duel", "--a", embedded[0], "--b", cold, *size, cwd=tmp_path)
    assert result.returncode == 4, result.stderr
    assert "B (ling-mini) reported no cached tokens" in result.stderr
    assert "--anyway" in result.stderr


def test_a_dry_run_says_what_it_would_cost(embedded: tuple[str, str], tmp_path: Path) -> None:
    a, b = embedded
    result = run_ling_bench("duel", "--a", a, "--b", b, "--context", "1K,4K", "--dry-run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "cost: 6 points x 4 cells (A B B A)" in result.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.quiet
@pytest.mark.timeout(1_200)
def test_hybrid_and_twin_cost_what_their_architectures_say(embedded: tuple[str, str], tmp_path: Path) -> None:
    size = ("--context", "512,2K,4K", "--concurrency", "1,8", "--num-prompts", "24", "--output-len", "32")
    document = duel(tmp_path, *embedded, *size, "--ignore-eos", *PRESETS, timeout_s=1_100)
    growth = {each["concurrency"]: each for each in document["growth"] if each["figure"] == "median_tpot_ms"}
    # One of the hybrid's six layers attends over the context, all six of the twin's do.
    assert growth[8]["first_ms_per_1024_tokens"] > 0
    assert growth[8]["ratio_low"] > 1.3, growth[8]
    tpot = [each for each in document["ratios"] if each["figure"] == "median_tpot_ms"]
    assert all(each["ratio"] > 1 for each in tpot if each["context_tokens"] == 4_096), "at 4K the hybrid must be ahead"
    throughput = [each for each in document["crossovers"] if each["figure"] == "output_throughput"]
    found = [each for each in throughput if each["along"] == "context length" and each["at"] is not None]
    assert found, "the twin is ahead on short prompts, the hybrid on long ones"
    assert all((each["ahead_above"], each["ahead_below"]) != ("B", "A") for each in found)
    levels = {each["how"]: each["tokens"] for each in document["break_even"]}
    assert levels["measured"] == pytest.approx(levels["computed"], rel=0.02)
    assert levels["computed"] == pytest.approx(_computed_level())


def _computed_level() -> float | None:
    setting = Setting(kv_dtype=KvDtype.FP32)
    sides = [
        MemoryModelOf(letter=letter, shape=named_model(name)[0].shape, setting=setting, source=name)
        for letter, name in (("A", "ling-mini"), ("B", "ling-mini-attention"))
    ]
    return break_even(*sides).tokens


@pytest.mark.llama_server
def test_llama_server_with_a_tiny_ling_against_a_tiny_attention_model(tmp_path: Path) -> None:
    hybrid, attention = tmp_path / "ling-mini.gguf", tmp_path / "tiny-llama.gguf"
    export = [sys.executable, "-m", "harness.reference.weights.gguf_export", str(hybrid)]
    subprocess.run(export, check=True, env=clean_environment(), timeout=120)
    write_tiny_llama(attention)
    server = ("-c", "32768", "-np", "4", "-cram", "0", "--metrics", "--slots", "--jinja")
    size = (
        "--context",
        "512,1K,2K",
        "--concurrency",
        "1,4",
        "--num-prompts",
        "16",
        "--output-len",
        "16",
        "--ignore-eos",
    )
    with start_llama_server(hybrid, *server) as a, start_llama_server(attention, *server) as b:
        document = duel(tmp_path, a, b, *size, "--a-label", "tiny Ling", "--b-label", "tiny attention model")
    ratios = [each for each in document["ratios"] if each["figure"] == "output_throughput"]
    assert len(ratios) == 6
    assert all(each["low"] is not None and each["method"] == "paired by request" for each in ratios)
    lengths = [run_of(document, index, tmp_path) for index in (0, 1)]
    assert all(read_cell(run, cell).info is not None for run in lengths for cell in run.cells())
