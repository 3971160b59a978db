"""What came back for one request, before anyone asks what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.records import RequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class RawAnswer:
    """The bytes of an answer and when they came; times are monotonic nanoseconds.

    headers: lower-case names; only those worth keeping. body: without the HTTP framing and with every secret masked.
    Piece i of it begins at body[starts[i]] and arrived at arrivals_ns[i]; pieces are never empty. sent_ns: the request
    had been handed to its socket whole (or writing began, if the answer came first); None if it never was. error:
    trouble of the connection, a wait that ran out, or a status other than 2xx; None says only that HTTP went well.
    retries: dead pooled connections replaced. connection_reused: None if no connection was had. process: by which of
    several it was sent; None if there is one.
    """

    http_status: int | None
    headers: Mapping[str, str]
    sent_ns: int | None
    body: bytes
    starts: tuple[int, ...]
    arrivals_ns: tuple[int, ...]
    end_ns: int
    error: RequestError | None = None
    retries: int = 0
    rate_limited: int = 0
    connection_reused: bool | None = None
    process: str | None = None

    def __post_init__(self) -> None:
        if len(self.starts) != len(self.arrivals_ns):
            raise ValueError(f"{len(self.starts)} pieces but {len(self.arrivals_ns)} arrival times")
