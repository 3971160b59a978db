"""Several caches behind one address, and somebody else on the server: neither is a fault of the server."""

from __future__ import annotations

import contextlib
import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.commands import engine, run_ling_bench

pytestmark = pytest.mark.slow
ENGINE = ("--noise", "bf16")


def verdicts(folder: Path, url: str, *checks: str) -> dict[str, dict[str, object]]:
    """The verdicts of some checks by name."""
    arguments = ["--base-url", url, "--exclusive-server", "--budget", "small", "--json"]
    result = run_ling_bench("check", *checks, *arguments, cwd=folder)
    found = {each["check"]: each["verdict"] for each in json.loads(result.stdout)["checks"]}
    assert result.returncode != 1, {name: verdict["reason"] for name, verdict in found.items()}
    return found


@contextlib.contextmanager
def someone_else(url: str) -> Iterator[None]:
    """A client that asks prompts of its own for as long as the block lasts."""
    done = threading.Event()

    def ask() -> None:
        count = 0
        while not done.wait(0.05):
            count += 1
            body = json.dumps({"model": "ling-mini", "prompt": f"{count} is a number. " * 40, "max_tokens": 1}).encode()
            request = urllib.request.Request(f"{url}/v1/completions", body, {"content-type": "application/json"})
            urllib.request.urlopen(request, timeout=60).read()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_two_caches_that_take_turns_are_counted_and_not_accused(tmp_path: Path) -> None:
    with engine(*ENGINE, "--replicas", "2") as url:
        found = verdicts(tmp_path, url, "cached-tokens", "eviction")
    assert "2 cache domains" in str(found["cached-tokens"]["reason"])
    assert found["eviction"]["status"] in ("pass", "inconclusive"), found["eviction"]["reason"]


def test_with_somebody_else_on_the_server_nothing_is_decided(tmp_path: Path) -> None:
    with engine(*ENGINE) as url, someone_else(url):
        found = verdicts(tmp_path, url, "cached-tokens", "eviction")
    for name, verdict in found.items():
        if name in ("cached-tokens", "eviction"):
            assert verdict["status"] == "inconclusive", verdict["reason"]
            assert "not alone" in str(verdict["reason"])
