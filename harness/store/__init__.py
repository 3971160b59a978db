"""The run folder: written at the start, during and at the end of a run, and read back whatever happened."""

from harness.store.errors import StoreError
from harness.store.folder import RunFolder, RunListing, list_runs, new_run_id, write_derived
from harness.store.garbage import uncollected
from harness.store.read import CellHistory, read_cell, read_raw
from harness.store.writer import CellWriter

__all__ = [
    "CellHistory",
    "CellWriter",
    "RunFolder",
    "RunListing",
    "StoreError",
    "list_runs",
    "new_run_id",
    "read_cell",
    "read_raw",
    "uncollected",
    "write_derived",
]
