"""Names inside a run folder, and writing a small file whole or not at all."""

from __future__ import annotations

import os
import re
from pathlib import Path

from harness.store.errors import StoreError
from harness.store.spool import write_failed

RUN = "run.json"
PLAN = "plan.jsonl"
PROMPTS = "prompts"
HISTORY = "history.jsonl"
TIMES = "times.u32"
RAW = "raw"
CELL = "cell.json"
ABORTED = ".aborted-"

_CELL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+=.-]*\Z")


def check_cell_name(name: str) -> None:
    """Raise StoreError unless `name` can be a folder of its own beside prompts/ and the aborted cells."""
    if not _CELL_NAME.match(name) or name == PROMPTS or ABORTED in name:
        raise StoreError(f"{name!r} cannot be the name of a cell")


def raw_path(cell_folder: Path, request_id: str) -> Path:
    """Where the raw answer of a request is kept."""
    return cell_folder / RAW / f"{request_id}.bin"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there in full or not at all, whatever happens; waits for the disk."""
    unfinished = path.with_name(path.name + ".part")
    try:
        with unfinished.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise write_failed(path, error) from error
