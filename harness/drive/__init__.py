"""Runs plans against a client at a load level, and writes down everything."""

from harness.drive.cell import run_cell
from harness.drive.nonce import new_nonce, with_nonce
from harness.drive.progress import NO_PROGRESS, Progress
from harness.drive.rounds import round_plan, run_round
from harness.drive.spec import CellSpec, cell_name

__all__ = [
    "NO_PROGRESS",
    "CellSpec",
    "Progress",
    "cell_name",
    "new_nonce",
    "round_plan",
    "run_cell",
    "run_round",
    "with_nonce",
]
