"""Requests beside the measured ones; every method raises EndpointError on any trouble."""

from __future__ import annotations

from typing import Protocol

from workloads.plan import Json


class TextSource(Protocol):
    """What reads a page."""

    async def get_text(self, path: str) -> str:
        """The body of a GET."""
        ...


class JsonSource(TextSource, Protocol):
    """What asks and tokenizes."""

    async def get_json(self, path: str) -> Json:
        """The JSON of a GET."""
        ...

    async def post_json(self, path: str, body: Json) -> Json:
        """The JSON answer to a POST."""
        ...


class ControlPort(TextSource, Protocol):
    """What changes a server's state."""

    async def post_text(self, path: str) -> str:
        """The body of the answer to an empty POST."""
        ...
