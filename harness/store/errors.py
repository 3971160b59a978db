"""The one error of the store."""

from __future__ import annotations


class StoreError(Exception):
    """The run folder could not be written or read; the message names the path and the reason."""
