"""What one cell is: a workload at a load level, and when it ends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.clock import NS_PER_MS, NS_PER_S
from workloads.plan import Json

CACHE_MODES = ("cold", "warm", "keep")
DRAIN_NS = 30 * NS_PER_S
SPREAD_PER_SLOT_NS = 5 * NS_PER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSpec:
    """One cell.

    cell: its folder's name. concurrency: most requests in flight. nonce: put before the first prompt token of every
    request; None leaves prompts alone. duration_ns: no request starts later than this after the first measured one;
    those in flight then have `drain_ns` to end. spread_start_ns: the first `concurrency` measured requests start evenly
    over it; None means 5 ms each, at most a quarter of the duration. max_requests: most measured requests. max_tokens:
    most prompt and output tokens of the cell, warm-up included. sampling: body fields of every request. raw_every: keep
    the raw answer of every n-th request (0: none), and of each that failed. scrape: read the server's counters. engine:
    whose ways of emptying a cache are used; None tries them all. cold_start: how its cold cache was reached, where
    that was not by a nonce. context_tokens: the prompt length aimed at, where
    cells of a run differ in it. arrivals: what an open load is called ("4/s", "inf", "trace x10"), None for a closed
    loop. request_rate: its requests a second, where that is one finite number. connections: to be opened before
    measuring, None as many as the concurrency. nonce_pieces: texts of one token to make the nonce of.
    """

    cell: str
    workload: str
    concurrency: int
    seed: int
    cache_mode: str = "cold"
    nonce: str | None = None
    round_index: int = 0
    duration_ns: int | None = None
    drain_ns: int = DRAIN_NS
    spread_start_ns: int | None = None
    max_requests: int | None = None
    max_tokens: int | None = None
    sampling: Mapping[str, Json] = field(default_factory=dict)
    raw_every: int = 16
    scrape: bool = True
    engine: str | None = None
    context_tokens: int | None = None
    cold_start: Mapping[str, Json] | None = None
    arrivals: str | None = None
    request_rate: float | None = None
    connections: int | None = None
    nonce_pieces: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError(f"{self.cell}: concurrency must be at least 1, got {self.concurrency}")
        if self.cache_mode not in CACHE_MODES:
            raise ValueError(f"{self.cell}: cache mode {self.cache_mode!r} is none of {', '.join(CACHE_MODES)}")
        if self.drain_ns < 0 or self.raw_every < 0:
            raise ValueError(f"{self.cell}: drain_ns and raw_every cannot be negative")

    @property
    def spread_ns(self) -> int:
        """Over how long the starts of the first measured requests are spread."""
        if self.arrivals is not None:
            return 0
        if self.spread_start_ns is not None:
            return self.spread_start_ns
        wanted_ns = self.concurrency * SPREAD_PER_SLOT_NS
        return wanted_ns if self.duration_ns is None else min(wanted_ns, self.duration_ns // 4)


def cell_name(
    workload: str,
    concurrency: int,
    context_tokens: int | None = None,
    round_index: int | None = None,
    arrivals: str | None = None,
) -> str:
    """The folder of a cell, so that names sort by context, load and round; None leaves a part out.

    A cell of an open load is named after its arrivals instead of its concurrency.
    """
    context = "" if context_tokens is None else f"-n{context_tokens:07d}"
    load = f"c{concurrency:04d}" if arrivals is None else f"q{re.sub('[^A-Za-z0-9.]+', '-', arrivals).strip('-')}"
    turn = "" if round_index is None else f"-r{round_index}"
    return f"{workload}{context}-{load}{turn}"
