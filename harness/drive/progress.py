"""What a display learns while a cell runs."""

from __future__ import annotations

from typing import Protocol

from harness.drive.spec import CellSpec
from harness.records import CellInfo, Complete, Invoke


class Progress(Protocol):
    """Called from the event loop; must not block."""

    def cell_started(self, spec: CellSpec, requests: int | None) -> None:
        """`requests`: measured requests to come; None when only the time ends the cell."""
        ...

    def request_finished(self, invoke: Invoke, complete: Complete) -> None:
        """An answer came, or did not; warm-up included."""
        ...

    def cell_finished(self, info: CellInfo) -> None:
        """The cell is on disk."""
        ...


class NoProgress:
    """Shows nothing."""

    def cell_started(self, spec: CellSpec, requests: int | None) -> None:
        return

    def request_finished(self, invoke: Invoke, complete: Complete) -> None:
        return

    def cell_finished(self, info: CellInfo) -> None:
        return


NO_PROGRESS = NoProgress()
