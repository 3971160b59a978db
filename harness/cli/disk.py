"""Trouble with a run folder as a message."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from harness.cli.exits import NothingMeasured
from harness.store import StoreError


@contextlib.contextmanager
def disk_trouble_is_a_message() -> Iterator[None]:
    """Trouble with the run folder ends the command with what it was, not with a traceback."""
    try:
        yield
    except StoreError as error:
        raise NothingMeasured(str(error)) from None
