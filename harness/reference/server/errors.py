"""Requests that are refused."""

from __future__ import annotations


class RequestError(Exception):
    """A refusal with its HTTP status; ``kind`` is the error type clients see, ``param`` the field at fault, if any.

    ``value`` is what that field held, None when it adds nothing.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "BadRequestError",
        param: str | None = None,
        value: object | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.kind = kind
        self.param = param
        self.value = value


class QueueFullError(Exception):
    """No more requests may wait."""


class EngineFailedError(Exception):
    """The engine stopped; nothing more will come."""
