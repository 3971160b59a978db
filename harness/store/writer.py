"""Writing one cell: history lines, token times and raw answers go to the writer thread; cell.json comes last."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from harness.records import CellInfo, Complete, CounterSample, Invoke
from harness.store import layout
from harness.store.codec import encode_document, encode_line
from harness.store.sidecar import encode_times
from harness.store.spool import Spool, write_failed
from workloads.plan import Json

RESERVE_BLOCK = 128
TIME_BYTES = 4


class CellWriter:
    """The open history of one cell; leaving it without `finish` leaves the cell unfinished and readable.

    Request ids are reserved in blocks: the line that reserves an id is in the file before the id is handed out, so a
    killed harness leaves at most the reserved ids without an `invoke` line as a gap.
    """

    def __init__(self, folder: Path, *, id_prefix: str, attempt: int, spool: Spool) -> None:
        self.attempt = attempt
        self._folder = folder
        self._prefix = id_prefix
        self._spool = spool
        self._times = spool.open(folder / layout.TIMES)
        self._history = spool.open(folder / layout.HISTORY)
        self._next = 0
        self._asked = 0
        self._on_disk = 0
        self._open = True
        self._reserve_now()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def next_request_id(self) -> str:
        """A fresh id, unique over cells, redone cells and runs; hands the next block to the thread in good time."""
        if self._next >= self._on_disk:
            self._reserve_now()
        number = self._next
        self._next += 1
        if self._asked - self._next < RESERVE_BLOCK // 2:
            first = self._asked
            self._asked += RESERVE_BLOCK
            self._spool.put(partial(self._reserve, first, self._asked))
        return f"{self._prefix}{number}"

    def invoke(self, invoke: Invoke) -> None:
        """Record a step about to be carried out; does not wait. Raises StoreError when the disk failed."""
        self._spool.put(partial(self._write_invoke, invoke))

    def complete(
        self,
        complete: Complete,
        event_times_ns: Sequence[int] | npt.NDArray[np.int64] | None = None,
        raw: bytes | None = None,
    ) -> None:
        """Record what came back, with its token times and its raw bytes where they are kept; does not wait.

        Sets `times_offset` and `raw_kept`. Raises ValueError when the times do not belong to `complete`.
        """
        if event_times_ns is not None:
            if len(event_times_ns) != complete.event_count:
                raise ValueError(f"{complete.request_id}: {len(event_times_ns)} times, {complete.event_count} events")
            if len(event_times_ns) and complete.sent_ns is None:
                raise ValueError(f"{complete.request_id}: events without the time the request was sent")
        self._spool.put(partial(self._write_complete, complete, event_times_ns, raw))

    def counters(self, sample: CounterSample) -> None:
        """Record the server's counters; does not wait."""
        self._spool.put(partial(self._write_counters, sample))

    def finish(self, info: CellInfo) -> None:
        """Close the history and write cell.json, which makes the cell finished; waits for the disk."""
        self.close()
        layout.write_whole(self._folder / layout.CELL, encode_document(info))

    def close(self) -> None:
        """Write out everything recorded so far and close the files; nothing happens the second time."""
        if not self._open:
            return
        self._open = False
        self._spool.put(self._write_closed)
        self._spool.flush()
        self._spool.release(self._times)
        self._spool.release(self._history)

    def _reserve_now(self) -> None:
        first, self._asked = self._on_disk, max(self._asked, self._next + RESERVE_BLOCK)
        self._history.add_now(self._reserve_line(first, self._asked))
        self._on_disk = self._asked

    def _reserve(self, first: int, end: int) -> None:
        self._history.add_now(self._reserve_line(first, end))
        self._on_disk = max(self._on_disk, end)

    def _reserve_line(self, first: int, end: int) -> bytes:
        return b'{"type":"reserve","prefix":"%s","from":%d,"to":%d}\n' % (self._prefix.encode(), first, end)

    def _write_closed(self) -> None:
        self._history.add(b'{"type":"closed"}\n')

    def _write_invoke(self, invoke: Invoke) -> None:
        self._history.add(encode_line("invoke", invoke))

    def _write_counters(self, sample: CounterSample) -> None:
        self._history.add(encode_line("counters", sample))

    def _write_complete(
        self, complete: Complete, event_times_ns: Sequence[int] | npt.NDArray[np.int64] | None, raw: bytes | None
    ) -> None:
        offset: int | None = None
        wide: list[tuple[int, int]] = []
        if event_times_ns is not None and len(event_times_ns) and complete.sent_ns is not None:
            deltas_us, wide = encode_times(complete.sent_ns, event_times_ns)
            offset = self._times.add(deltas_us.tobytes()) // TIME_BYTES
        if raw is not None:
            self._write_raw(complete.request_id, raw)
        more: dict[str, Json] = {"times_offset": offset, "raw_kept": raw is not None}
        if wide:
            more["wide_deltas_us"] = wide
        self._history.add(encode_line("complete", complete, **more))

    def _write_raw(self, request_id: str, raw: bytes) -> None:
        path = layout.raw_path(self._folder, request_id)
        try:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(raw)
        except OSError as error:
            raise write_failed(path, error) from error
