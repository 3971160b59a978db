"""A sweep of a real llama-server: what we counted is what the server counted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.records import Usage
from harness.store import RunFolder, read_cell
from tests.e2e.commands import clean_environment, sweep
from tests.servers.llama_server import start_llama_server

ARGUMENTS = ("-c", "65536", "-np", "8", "-cram", "0", "--metrics", "--slots", "--jinja")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """llama-server with the embedded engine's own weights, exported as GGUF."""
    gguf = tmp_path_factory.mktemp("gguf") / "ling-mini.gguf"
    command = [sys.executable, "-m", "harness.reference.weights.gguf_export", str(gguf)]
    subprocess.run(command, check=True, env=clean_environment(), timeout=120)
    with start_llama_server(gguf, *ARGUMENTS) as url:
        yield url


def sums(usages: list[Usage]) -> dict[str, int]:
    """What the client counted, under the names of the server's counters; a missing count is an error here."""

    def total(name: str) -> int:
        values = [getattr(usage, name) for usage in usages]
        assert None not in values
        return sum(values)

    cached = total("cached_tokens")
    return {
        "llamacpp:prompt_tokens_total": total("prompt_tokens") - cached,
        "llamacpp:prompt_tokens_cached_total": cached,
        "llamacpp:tokens_predicted_total": total("completion_tokens"),
    }


@pytest.mark.llama_server
@pytest.mark.parametrize("endpoint_type", ["chat", "completions"])
def test_sums_of_each_level_equal_the_servers_counters(server: str, endpoint_type: str, tmp_path: Path) -> None:
    path = sweep(server, "1,8,32", tmp_path, "--num-prompts", "32", "--endpoint-type", endpoint_type)
    with RunFolder.open(path) as run:
        histories = [read_cell(run, cell) for cell in run.cells()]
    assert len(histories) == 3
    for history in histories:
        assert history.info is not None and (history.info.ok, history.info.sent) == (32, 32)
        usages = [record.complete.usage for record in history.records]
        first, last = history.info.counters[0].values, history.info.counters[-1].values
        for name, expected in sums([usage for usage in usages if usage is not None]).items():
            assert last[name] - first[name] == expected, name
