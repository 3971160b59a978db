"""Exit codes, as the conventions give them, and the exceptions that carry them."""

from __future__ import annotations

from enum import IntEnum

import click


class Exit(IntEnum):
    """0 pass, 1 something failed, 2 usage, 3 undecided, 4 measurement unsound or tool broken, 130 Ctrl-C."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    UNDECIDED = 3
    UNSOUND = 4
    INTERRUPTED = 130


class NothingMeasured(click.ClickException):
    """The server could not be asked at all, so there is no result: a message that says what to do, exit 4."""

    exit_code = Exit.UNSOUND
