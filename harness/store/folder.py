"""The run folder: created before anything is sent, grown while the run lasts, read by everything after it."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson

from harness.records import RoundPlan, RunInfo
from harness.store import layout
from harness.store.codec import NotReadable, Unread, decode, encode_document, encode_line
from harness.store.errors import StoreError
from harness.store.spool import AppendFile, Spool, write_failed
from harness.store.writer import CellWriter

NAME_LENGTH = 40


def new_run_id(now: datetime, workload: str, model: str, token: str) -> str:
    """The name of a new run's folder, `<utc>-<workload>-<model>-<token>`; `token` is a few random letters."""
    parts = (f"{now:%Y%m%dT%H%M%SZ}", _plain_name(workload), _plain_name(model), token)
    return "-".join(part for part in parts if part)


def _plain_name(text: str) -> str:
    last = text.rstrip("/").rpartition("/")[2]
    ascii_only = unicodedata.normalize("NFKD", last).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9.]+", "-", ascii_only).strip("-.")[:NAME_LENGTH]


class RunFolder:
    """One run on disk. A context manager: leaving it ends the writer thread, which starts with the first write.

    info: what run.json says. unread_fields: keys of run.json that this version does not know, counted.
    """

    def __init__(self, path: Path, info: RunInfo, unread_fields: Mapping[str, int]) -> None:
        self.path = path
        self.info = info
        self.unread_fields = unread_fields
        self._spool: Spool | None = None
        self._prompts: set[str] = set()
        self._prompt_folder = str(path / layout.PROMPTS)

    @classmethod
    def create(cls, result_dir: Path, info: RunInfo) -> Self:
        """A new folder named by the run's id, with run.json in it. Raises StoreError if there is one already."""
        path = result_dir / info.run_id
        try:
            path.mkdir(parents=True)
            (path / layout.PROMPTS).mkdir()
        except OSError as error:
            raise write_failed(path, error) from error
        layout.write_whole(path / layout.RUN, encode_document(info))
        return cls(path, info, {})

    @classmethod
    def open(cls, path: Path) -> Self:
        """An existing folder, of any schema version. Raises StoreError if its run.json cannot be read."""
        unread: Unread = Counter()
        try:
            info = decode(RunInfo, orjson.loads((path / layout.RUN).read_bytes()), unread)
        except FileNotFoundError as error:
            raise StoreError(f"{path} is not a run folder: it has no {layout.RUN}") from error
        except (OSError, NotReadable, orjson.JSONDecodeError) as error:
            raise StoreError(f"{path / layout.RUN} cannot be read: {error}") from error
        return cls(path, info, unread)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write out what is queued and end the writer thread."""
        spool, self._spool = self._spool, None
        if spool is not None:
            spool.close()

    def plan_round(self, plan: RoundPlan) -> None:
        """Append one line to plan.jsonl; it is on disk when this returns."""
        file = AppendFile(self.path / layout.PLAN)
        torn = file.position > 0 and not (self.path / layout.PLAN).read_bytes().endswith(b"\n")
        file.add((b"\n" if torn else b"") + encode_line("round", plan))
        file.sync_and_close()

    def rounds(self) -> tuple[RoundPlan, ...]:
        """The lines of plan.jsonl, oldest first; a torn or foreign line is left out."""
        path = self.path / layout.PLAN
        lines = path.read_bytes().splitlines() if path.exists() else []
        plans: list[RoundPlan] = []
        for line in lines:
            try:
                plans.append(decode(RoundPlan, orjson.loads(line), Counter()))
            except (NotReadable, orjson.JSONDecodeError):
                continue
        return tuple(plans)

    def prompt(self, prompt_hash: str, content: bytes) -> None:
        """Keep a prompt once under its hash (SHA-256 of `content`, hexadecimal); does not wait."""
        if prompt_hash not in self._prompts:
            self._prompts.add(prompt_hash)
            self._writing().put(partial(_write_prompt, f"{self._prompt_folder}/{prompt_hash}", content))

    def read_prompt(self, prompt_hash: str) -> bytes:
        """The prompt kept under a hash. Raises StoreError if it is not there."""
        path = self.path / layout.PROMPTS / prompt_hash
        try:
            return path.read_bytes()
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}") from error

    def cell(self, name: str) -> CellWriter:
        """Open a new cell. An unfinished one of that name is moved aside and kept; a finished one is a StoreError."""
        layout.check_cell_name(name)
        if self.is_finished(name):
            raise StoreError(f"{self.path / name} is finished; a cell is never overwritten")
        folder = self.path / name
        attempt = max((number for other, number in self._aborted() if other == name), default=0)
        try:
            if folder.exists():
                attempt += 1
                folder.rename(self.path / f"{name}{layout.ABORTED}{attempt}")
            folder.mkdir()
        except OSError as error:
            raise write_failed(folder, error) from error
        token = self.info.run_id.rpartition("-")[2]
        return CellWriter(folder, id_prefix=f"{token}-{name}-{attempt}-", attempt=attempt, spool=self._writing())

    def cells(self) -> tuple[str, ...]:
        """The cells there are, finished or not, in the order they were planned; unplanned ones come last."""
        histories = self.path.glob(f"*/{layout.HISTORY}")
        there = {each.parent.name for each in histories if layout.ABORTED not in each.parent.name}
        planned = [plan.cell for plan in self.rounds() if plan.cell in there]
        return tuple(dict.fromkeys([*planned, *sorted(there)]))

    def aborted_cells(self) -> tuple[str, ...]:
        """Unfinished cells that were moved aside and redone."""
        return tuple(f"{name}{layout.ABORTED}{number}" for name, number in sorted(self._aborted()))

    def is_finished(self, name: str) -> bool:
        """Whether a cell has its closing record."""
        return (self.path / name / layout.CELL).exists()

    def _aborted(self) -> list[tuple[str, int]]:
        names = (each.name.rpartition(layout.ABORTED) for each in self.path.glob(f"*{layout.ABORTED}*"))
        return [(name, int(number)) for name, _, number in names if number.isdigit()]

    def _writing(self) -> Spool:
        if self._spool is None:
            self._spool = Spool()
        return self._spool


def write_derived(run: RunFolder, name: str, content: object) -> None:
    """Write a file that can be rebuilt from the records, such as summary.json, whole or not at all."""
    layout.write_whole(run.path / name, encode_document(content))


def _write_prompt(path: str, content: bytes) -> None:
    """Write a prompt whole or not at all; system calls alone, because every request has one."""
    unfinished = f"{path}.part"
    try:
        file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(file, rest) :]
        finally:
            os.close(file)
        os.replace(unfinished, path)  # noqa: PTH105
    except OSError as error:
        raise write_failed(Path(path), error) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListing:
    """One folder of results/: what it holds, or why it cannot be read (`error`, then `info` is None)."""

    path: Path
    info: RunInfo | None
    finished: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    error: str | None = None


def list_runs(result_dir: Path) -> list[RunListing]:
    """Every run folder directly under `result_dir`, oldest name first; folders without run.json are not runs."""
    return [_listing(each.parent) for each in sorted(result_dir.glob(f"*/{layout.RUN}"))]


def _listing(path: Path) -> RunListing:
    try:
        run = RunFolder.open(path)
    except StoreError as error:
        return RunListing(path=path, info=None, error=str(error))
    cells = run.cells()
    finished = tuple(name for name in cells if run.is_finished(name))
    unfinished = tuple(name for name in cells if not run.is_finished(name))
    return RunListing(path=path, info=run.info, finished=finished, unfinished=unfinished)
