"""The engine as a process: it says where it listens, and stops when told to or when its parent is gone."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.reference.options import OPTIONS, EngineOptions, from_values

TIMEOUT_S = 60


@contextmanager
def process(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running server and its URL; killed at the end if it still runs."""
    command = [sys.executable, "-m", "harness.reference", "--port", "0", *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            yield running, json.loads(running.stdout.readline())["listening"]
        finally:
            running.kill()


def complete(url: str, prompt: object = "Once upon a time") -> dict[str, object]:
    body = json.dumps({"prompt": prompt, "max_tokens": 4, "temperature": 0}).encode()
    request = urllib.request.Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
        answer: dict[str, object] = json.load(response)
    return answer


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_and_exits_cleanly(signum: signal.Signals, tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    with process("--request-log", str(log)) as (running, url):
        assert complete(url)["object"] == "text_completion"
        assert json.loads(log.read_text())["prompt_tokens"] > 0
        running.send_signal(signum)
        assert running.wait(TIMEOUT_S) == 0


def test_a_limit_beyond_the_models_own_length_is_served_to_its_end() -> None:
    with process("--max-model-len", "17000") as (_, url):
        usage = complete(url, [5] * 16_996)["usage"]
        assert isinstance(usage, dict) and usage["total_tokens"] == 17_000


def test_a_client_that_leaves_before_its_answer_aborts_its_request() -> None:
    with process() as (_, url):
        host, _, port = url.removeprefix("http://").partition(":")
        body = json.dumps({"prompt": "Once", "max_tokens": 16000, "ignore_eos": True}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((host, int(port))) as leaving:
            leaving.sendall(head.encode() + body)
            while metric(url, "vllm:num_requests_running") < 1:
                pass
        while metric(url, "vllm:num_requests_running") > 0:
            pass
        assert metric(url, 'finished_reason="abort"') == 1


def metric(url: str, name: str) -> float:
    """The first sample whose line contains a name."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=TIMEOUT_S) as response:
        lines = response.read().decode().splitlines()
    return float(next(line for line in lines if name in line and not line.startswith("#")).rsplit(" ", 1)[1])


def test_it_ends_with_its_parent_if_so_told() -> None:
    with process("--exit-with-parent") as (running, _):
        assert running.stdin is not None
        running.stdin.close()
        assert running.wait(TIMEOUT_S) == 0


def test_options_and_addresses_that_cannot_be_served_exit_2() -> None:
    command = [sys.executable, "-m", "harness.reference"]
    wrong = subprocess.run([*command, "--slots", "0"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert wrong.returncode == 2 and "slots must be at least 1" in wrong.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command += ["--port", str(taken.getsockname()[1])]
        busy = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert busy.returncode == 2 and "error:" in busy.stderr


def test_the_listing_of_options_covers_every_field_with_its_default() -> None:
    assert from_values({option.name: option.default for option in OPTIONS}) == EngineOptions()
    assert {option.flag for option in OPTIONS} >= {"--max-model-len", "--cache-bytes", "--speculative-tokens"}


@pytest.mark.parametrize(
    "changes",
    [
        {"chunk": 10},
        {"state_interval": 100},
        {"deterministic": True, "noise": "bf16"},
        {"port": -1},
        {"cache_bytes": 0},
    ],
)
def test_contradictions_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        EngineOptions(**changes)  # type: ignore[arg-type]
