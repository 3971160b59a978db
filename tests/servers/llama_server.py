"""Starts a real llama-server for tests."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_START_LIMIT_S = 60


def find_llama_server() -> Path | None:
    """The binary named by LING_BENCH_LLAMA_SERVER, else what build_llama_server.sh cached; None when there is none."""
    named = os.environ.get("LING_BENCH_LLAMA_SERVER")
    if named:
        return Path(named)
    xdg = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(os.environ.get("LING_BENCH_CACHE") or xdg / "ling-bench")
    built = sorted(cache.glob("llama-cpp-*/llama-server"))
    return built[-1] if built else None


@contextmanager
def start_llama_server(gguf: Path, *arguments: str) -> Iterator[str]:
    """Runs a server on a free port and yields its base URL, without ``/v1``.

    Raises:
        RuntimeError: no binary, or the server ended or stayed silent for 60 s; with the end of its log.
    """
    binary = find_llama_server()
    if binary is None:
        raise RuntimeError("no llama-server: run tests/servers/build_llama_server.sh or set LING_BENCH_LLAMA_SERVER")
    port = free_port()
    command = [
        str(binary),
        "-m",
        str(gguf),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "-t",
        "1",
        "-tb",
        "1",
        *arguments,
    ]
    log_path = gguf.with_suffix(".log")
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            _await_health(process, f"http://127.0.0.1:{port}", log_path)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=30)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_health(process: subprocess.Popen[bytes], url: str, log_path: Path) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise RuntimeError(f"llama-server did not start:\n{log_path.read_text(errors='replace')[-3000:]}")
