"""What a command and everything it starts cost: CPU, memory, processes."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLE_S = 0.2
LEFTOVERS_S = 5.0
_PR_SET_CHILD_SUBREAPER = 36
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """cpu_s: user and system time of the whole tree. peak_rss_mb: the largest sum of resident sizes (MB of 10^6 bytes),
    so that pages which processes share count once each. exit_code: None if the time ran out."""

    cpu_s: float
    wall_s: float
    peak_rss_mb: float
    processes: int
    exit_code: int | None


def adopt_orphans() -> None:
    """Let processes whose parent ended become ours, so that their CPU time reaches us when they end."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def spend(command: Sequence[str], environment: Mapping[str, str], log: Path, timeout_s: float) -> Spent:
    """Run a command to its end, its output in `log`. Needs `adopt_orphans` before."""
    others = set(_children(os.getpid()))
    before_s, begin_s = _reaped_cpu_s(), time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        peak_bytes, most = _watch(process, begin_s + timeout_s)
    ended = process.poll()
    _end_leftovers(process, others)
    return Spent(
        cpu_s=_reaped_cpu_s() - before_s,
        wall_s=time.monotonic() - begin_s,
        peak_rss_mb=peak_bytes / 1e6,
        processes=most,
        exit_code=ended,
    )


def _watch(process: subprocess.Popen[bytes], until_s: float) -> tuple[int, int]:
    """Until the process ends or the time is over: most resident bytes and most processes at once."""
    peak_bytes = most = 0
    while process.poll() is None and time.monotonic() < until_s:
        tree = [process.pid, *_descendants(process.pid)]
        peak_bytes = max(peak_bytes, sum(map(_resident_bytes, tree)))
        most = max(most, len(tree))
        time.sleep(SAMPLE_S)
    return peak_bytes, most


def _end_leftovers(process: subprocess.Popen[bytes], others: set[int]) -> None:
    """Wait for what the command left running, then end it; what was there before is left alone."""
    until_s = time.monotonic() + (LEFTOVERS_S if process.poll() is not None else 0)
    while left := [pid for pid in _children(os.getpid()) if pid not in others]:
        for pid in left:
            if time.monotonic() > until_s:
                os.kill(pid, signal.SIGKILL)
            if pid == process.pid:
                process.poll()
            else:
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.02)


def _reaped_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:
            continue
    return found


def _descendants(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _descendants(child)


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0
