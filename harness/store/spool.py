"""The writer thread: lines are handed over without waiting and reach their files every 50 ms."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from harness.store.errors import StoreError

FLUSH_INTERVAL_S = 0.05
FLUSH_PATIENCE_S = 60.0


def write_failed(path: Path, error: OSError) -> StoreError:
    """The error for a failed write, with the disk-full case in plain words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(f"the disk is full: {path} could not be written; free some space and resume the run")
    return StoreError(f"{path} could not be written: {error.strerror or error}")


class AppendFile:
    """A file that only grows: bytes are gathered by `add` and written by `flush`; `add_now` does both.

    A position is counted in bytes from the start of the file. Safe to use from two threads.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pending: list[bytes] = []
        self._lock = threading.Lock()
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            self.position = os.fstat(self._fd).st_size
        except OSError as error:
            raise write_failed(path, error) from error

    def add(self, data: bytes) -> int:
        """Gather `data`; returns the position it will have."""
        with self._lock:
            start = self.position
            self.position += len(data)
            self._pending.append(data)
            return start

    def flush(self) -> None:
        """Hand everything gathered to the operating system, where it outlives this process."""
        with self._lock:
            self._write_pending()

    def add_now(self, data: bytes) -> None:
        """Gather and flush at once."""
        with self._lock:
            self.position += len(data)
            self._pending.append(data)
            self._write_pending()

    def sync_and_close(self) -> None:
        """Flush, wait for the disk, close."""
        with self._lock:
            self._write_pending()
            os.fsync(self._fd)
            os.close(self._fd)

    def _write_pending(self) -> None:
        if not self._pending:
            return
        rest = memoryview(b"".join(self._pending))
        self._pending.clear()
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            raise write_failed(self._path, error) from error


class Spool:
    """A queue of small writing jobs and the one thread that carries them out, in order.

    A failure stops the thread; from then on every call raises it, so that a run never goes on unrecorded.
    """

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], None] | threading.Event] = deque()
        self._files: list[AppendFile] = []
        self._work = threading.Event()
        self._hurry = threading.Event()
        self._error: BaseException | None = None
        self._closing = False
        self._carried = 0
        self._thread = threading.Thread(target=self._run, name="ling-bench-store", daemon=True)
        self._thread.start()

    def open(self, path: Path) -> AppendFile:
        """A file flushed at every turn of the thread, in the order of opening."""
        file = AppendFile(path)
        self._files = [*self._files, file]
        return file

    def release(self, file: AppendFile) -> None:
        """Close a file for good; call `flush` before."""
        self._files = [each for each in self._files if each is not file]
        file.sync_and_close()

    def put(self, job: Callable[[], None]) -> None:
        """Queue a job; never waits. Raises what stopped the thread, if something did."""
        self._raise_failure()
        if self._closing:
            raise RuntimeError("the run folder is closed")
        self._jobs.append(job)
        if not self._work.is_set():
            self._work.set()

    def flush(self) -> None:
        """Wait until every job put so far is carried out and its bytes are with the operating system.

        However long the queue is, it is waited for while it gets shorter; StoreError if nothing moves any more.
        """
        self._raise_failure()
        done = threading.Event()
        self._jobs.append(done)
        self._hurry.set()
        self._work.set()
        carried = -1
        while not done.wait(FLUSH_PATIENCE_S):
            if self._carried == carried:
                raise StoreError(f"the disk took no record for {FLUSH_PATIENCE_S:.0f} s")
            carried = self._carried
        self._raise_failure()

    def close(self) -> None:
        """Carry out what is queued and end the thread."""
        self._closing = True
        self._hurry.set()
        self._work.set()
        carried = -1
        while self._thread.is_alive() and self._carried != carried:
            carried = self._carried
            self._thread.join(FLUSH_PATIENCE_S)
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        waiting: list[threading.Event] = []
        try:
            while not self._closing or self._jobs:
                self._work.wait()
                self._hurry.wait(FLUSH_INTERVAL_S)
                self._work.clear()
                self._hurry.clear()
                self._turn(waiting)
        except BaseException as error:
            self._error = error
            waiting += [job for job in self._jobs if isinstance(job, threading.Event)]
        for event in waiting:
            event.set()

    def _turn(self, waiting: list[threading.Event]) -> None:
        for _ in range(len(self._jobs)):  # what comes meanwhile waits, so that a busy loop cannot put off the flush
            job = self._jobs.popleft()
            if isinstance(job, threading.Event):
                waiting.append(job)
            else:
                job()
                self._carried += 1
                time.sleep(0)  # lets the event loop have the interpreter between two jobs
        for file in self._files:
            file.flush()
        while waiting:
            waiting.pop().set()
