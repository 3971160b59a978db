"""Prompts have the asked length by the server's own count: embedded engine and llama-server, both routes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.commands import clean_environment, engine, run_ling_bench
from tests.servers.llama_server import start_llama_server
from tests.servers.usage_only import usage_only_server

LENGTHS = (1, 127, 128, 129, 4095, 4096, 16_000)


@pytest.fixture(scope="module")
def embedded() -> Iterator[str]:
    with engine() as url:
        yield url


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    gguf = tmp_path_factory.mktemp("gguf") / "ling-mini.gguf"
    command = [sys.executable, "-m", "harness.reference.weights.gguf_export", str(gguf)]
    subprocess.run(command, check=True, env=clean_environment(), timeout=120)
    with start_llama_server(gguf, "-c", "40000", "-np", "2", "-cram", "0", "--metrics", "--jinja") as url:
        yield url


def sent_lengths(url: str, route: str, tokens: int, cwd: Path, workload: str = "random") -> tuple[float, float] | str:
    """Mean and spread of the prompt lengths that the server counted, or why there are none."""
    result = run_ling_bench(
        "sweep", "--base-url", url, "--endpoint-type", route, "--dataset-name", workload, "--exact-lengths",
        "--input-len", str(tokens), "--output-len", "1", "--concurrency", "1", "--num-prompts", "2",
        "--num-warmups", "0",
        "--cache", "keep", "--json", cwd=cwd,
    )  # fmt: skip
    if result.returncode == 2:
        return result.stderr.splitlines()[-1]
    cell = json.loads(result.stdout)["cells"][0]
    assert cell["completed"] == 2, result.stderr
    return cell["mean_input_tokens"], cell["std_input_tokens"]


def check(url: str, route: str, tokens: int, cwd: Path) -> None:
    sent = sent_lengths(url, route, tokens, cwd)
    if tokens == 1 and isinstance(sent, str):
        assert "is the shortest" in sent
    else:
        assert sent == (tokens, 0)


@pytest.mark.parametrize("route", ["chat", "completions"])
def test_a_short_prompt_on_the_embedded_engine(embedded: str, route: str, tmp_path: Path) -> None:
    check(embedded, route, 129, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("route", ["chat", "completions"])
@pytest.mark.parametrize("tokens", LENGTHS)
def test_every_length_on_the_embedded_engine(embedded: str, route: str, tokens: int, tmp_path: Path) -> None:
    check(embedded, route, tokens, tmp_path)


@pytest.mark.llama_server
@pytest.mark.parametrize("route", ["chat", "completions"])
@pytest.mark.parametrize("tokens", LENGTHS)
def test_every_length_on_llama_server(llama: str, route: str, tokens: int, tmp_path: Path) -> None:
    check(llama, route, tokens, tmp_path)


@pytest.mark.parametrize("route", ["chat", pytest.param("completions", marks=pytest.mark.slow)])
def test_a_server_that_tells_lengths_by_usage_alone(route: str, tmp_path: Path) -> None:
    with usage_only_server() as url:
        assert sent_lengths(url, route, 333, tmp_path, "repeat") == (333, 0)


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["repeat", "fork"])
def test_shared_prefixes_of_an_exact_length(embedded: str, workload: str, tmp_path: Path) -> None:
    assert sent_lengths(embedded, "chat", 777, tmp_path, workload) == (777, 0)
