"""The embedded engine in its own process, started for one command and stopped with it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from harness.cli.exits import NothingMeasured

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 5.0


@contextlib.contextmanager
def embedded_engine(arguments: Sequence[str] = ()) -> Iterator[str]:
    """Run `python -m harness.reference` with `arguments` and yield its base URL; the process ends with the block.

    Raises NothingMeasured when it does not come up within START_TIMEOUT_S.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.reference", "--port", "0", "--exit-with-parent", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        yield _listening_url(process)
    finally:
        _stop(process)


def _listening_url(process: subprocess.Popen[bytes]) -> str:
    """Wait for the engine's one line of JSON that names its address."""
    assert process.stdout is not None
    deadline_s = time.monotonic() + START_TIMEOUT_S
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        ready = selector.select(timeout=deadline_s - time.monotonic())
    line = process.stdout.readline() if ready else b""
    if not line:
        raise NothingMeasured(f"the embedded engine did not start (exit code {process.poll()}); its messages are above")
    return str(json.loads(line)["listening"])


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, then make it."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
