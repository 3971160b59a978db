"""One request and what has come back for it so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate, compress

from harness.endpoint.chunked import ChunkedBody, FramingError
from harness.endpoint.gateway import RESPONSE_CACHE
from harness.endpoint.raw import RawAnswer
from harness.endpoint.secret import Secret, redact
from harness.records import ErrorKind, RequestError

_KEPT_HEADERS = (
    "content-type",
    "content-encoding",
    "retry-after",
    "location",
    "server",
    "x-request-id",
    "x-litellm-model-id",
    *RESPONSE_CACHE,
    "x-worker-instance-id",
)


class LimitedPieces(list[bytes]):
    """Body bytes as they come; the piece that makes `limit` of them calls `reached`."""

    def __init__(self, limit: int, reached: Callable[[], None]) -> None:
        super().__init__()
        self._limit = limit
        self._reached = reached

    def append(self, piece: bytes) -> None:
        super().append(piece)
        if len(self) == self._limit:
            self._reached()


class Exchange:
    """Fills while an answer arrives; `answer` gives the frozen record at any moment.

    pieces / arrivals_ns: body bytes as they came and when. `framing` is set when the pieces still carry the chunked
    framing, which is then taken off after the last of them. untouched: no byte of an answer has come. cut_off: called
    once `abort_after` pieces have come (0: once the request is written), where it is set. socket: the file descriptor
    that the request went out by; None before that.
    """

    __slots__ = (
        "abort_after",
        "arrivals_ns",
        "bad_framing",
        "cut_off",
        "framing",
        "headers",
        "parts",
        "pieces",
        "rate_limited",
        "retries",
        "reused",
        "sent_ns",
        "socket",
        "status",
        "untouched",
        "writing_ns",
    )

    def __init__(self, abort_after: int | None = None) -> None:
        self.abort_after = abort_after
        self.cut_off: Callable[[], None] | None = None
        self.retries = 0
        self.rate_limited = 0
        self.reused: bool | None = None
        self.restart()

    def restart(self) -> None:
        """Forget an attempt of which nothing came."""
        self.writing_ns: int | None = None
        self.sent_ns: int | None = None
        self.socket: int | None = None
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.arrivals_ns: list[int] = []
        self.parts: list[bytes] = []
        self.framing: ChunkedBody | None = None
        self.bad_framing: str | None = None
        self.untouched = True

    def cut_off_by(self, cut_off: Callable[[], None]) -> None:
        """Have `cut_off` called when its time has come; does nothing for an exchange that is not to be cut off."""
        if self.abort_after is not None:
            self.cut_off = cut_off
            self.pieces = LimitedPieces(self.abort_after, cut_off)

    def written(self, at_ns: int) -> None:
        """The request is in its socket."""
        if self.sent_ns is None:
            self.sent_ns = at_ns
            if self.cut_off is not None and self.abort_after == 0:
                self.cut_off()

    def keep_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Note the status and the headers worth keeping; `headers` looks names up in any case."""
        self.untouched = False
        self.status = status
        self.headers = {name: headers[name] for name in _KEPT_HEADERS if name in headers}

    def take_off_framing(self) -> bool:
        """Whether the body is whole; FramingError if it is not chunked framing at all."""
        if self.framing is None:
            return False
        if self.bad_framing is not None:
            raise FramingError(self.bad_framing)
        try:
            self.framing.feed_each(self.pieces[len(self.parts) :], self.parts)
        except FramingError as trouble:
            self.bad_framing = str(trouble)
            raise
        return self.framing.finished

    def answer(self, end_ns: int, error: RequestError | None, secrets: Iterable[Secret]) -> RawAnswer:
        """The record up to now, with secrets masked in the body and in the kept headers."""
        secrets = tuple(secrets)
        try:
            self.take_off_framing()
        except FramingError as trouble:
            error = RequestError(kind=ErrorKind.GARBAGE, message=str(trouble))
        parts = self.pieces if self.framing is None else self.parts
        # An answer can come before the whole of a long request was taken; then the beginning of writing has to do.
        sent_ns = self.sent_ns if self.sent_ns is not None or self.untouched else self.writing_ns
        kept = list(filter(None, parts))
        return RawAnswer(
            http_status=self.status,
            headers={name: redact(value, secrets) for name, value in self.headers.items()},
            sent_ns=sent_ns,
            body=_masked(b"".join(kept), secrets),
            starts=tuple(accumulate(map(len, kept[:-1]), initial=0)) if kept else (),
            arrivals_ns=tuple(compress(self.arrivals_ns, parts)),
            end_ns=end_ns,
            error=error,
            retries=self.retries,
            rate_limited=self.rate_limited,
            connection_reused=self.reused,
        )


def _masked(body: bytes, secrets: Iterable[Secret]) -> bytes:
    """`body` with each secret replaced by stars of the same length, so that offsets stay true."""
    for secret in secrets:
        value = secret.reveal().encode()
        if value and value in body:
            body = body.replace(value, b"*" * len(value))
    return body
