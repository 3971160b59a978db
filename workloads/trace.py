"""Recorded traffic as plain data: what was asked when, how long it was, and which prefixes it shared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median

from workloads.plan import Prompt
from workloads.text import seeded


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRequest:
    """One request of a trace; None means that the trace does not say.

    at_s: since the trace's first request. think_s: since the session's previous answer. kind: what the request
    brought, "user" text or a "tool" result. blocks: an id for each leading block of `Trace.block_tokens` tokens, which
    stands for the block and everything before it. prefix_tokens: leading tokens that were in the session's previous
    request. output_text: the recorded answer. parent: the session that sent this one out.
    """

    session: str
    turn: int
    input_tokens: int | None = None
    output_tokens: int | None = None
    at_s: float | None = None
    think_s: float | None = None
    kind: str | None = None
    blocks: tuple[int, ...] | None = None
    prefix_tokens: int | None = None
    prompt: Prompt | None = None
    output_text: str | None = None
    parent: str | None = None

    def __post_init__(self) -> None:
        for name in ("input_tokens", "output_tokens", "think_s", "prefix_tokens"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} cannot be negative, got {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that could not be read."""

    file: str
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Requests in the order of the file. block_tokens: tokens a block id stands for, None without block ids."""

    format: str
    source: str
    requests: tuple[TracedRequest, ...]
    block_tokens: int | None = None
    bad_rows: tuple[BadRow, ...] = field(default=())

    def sessions(self) -> Mapping[str, tuple[TracedRequest, ...]]:
        """The requests of each session, by turn."""
        grouped: dict[str, list[TracedRequest]] = {}
        for request in self.requests:
            grouped.setdefault(request.session, []).append(request)
        return {name: tuple(sorted(each, key=lambda request: request.turn)) for name, each in grouped.items()}


def timed_from_zero(requests: Sequence[TracedRequest]) -> tuple[TracedRequest, ...]:
    """Times counted from the first request; a request without a time keeps having none."""
    first_s = min((request.at_s for request in requests if request.at_s is not None), default=0.0)
    return tuple(
        request if request.at_s is None else replace(request, at_s=request.at_s - first_s) for request in requests
    )


def jittered(requests: Sequence[TracedRequest], seed: int) -> tuple[TracedRequest, ...]:
    """Requests stamped with the same time, spread at random over the time to the next stamp.

    Traces stamp whole seconds, or every third; sent as they are, a burst would stand at each stamp. Only traces in
    which most requests share their stamp are touched; requests of one stamp keep their order.
    """
    stamps = sorted({request.at_s for request in requests if request.at_s is not None})
    timed = sum(request.at_s is not None for request in requests)
    if len(stamps) < 2 or 2 * len(stamps) > timed:
        return tuple(requests)
    step_s = median(later - earlier for earlier, later in pairwise(stamps))
    rng = seeded(seed, "jitter")
    sizes = Counter(request.at_s for request in requests)
    offsets = {stamp: iter(sorted(rng.random() * step_s for _ in range(sizes[stamp]))) for stamp in stamps}
    moved = [r if r.at_s is None else replace(r, at_s=r.at_s + next(offsets[r.at_s])) for r in requests]
    return _in_turn_order(moved)


def _in_turn_order(requests: Iterable[TracedRequest]) -> tuple[TracedRequest, ...]:
    latest: dict[str, float] = {}
    ordered: list[TracedRequest] = []
    for request in requests:
        if request.at_s is not None:
            at_s = max(request.at_s, latest.get(request.session, request.at_s))
            latest[request.session] = at_s
            request = replace(request, at_s=at_s)
        ordered.append(request)
    return tuple(ordered)
