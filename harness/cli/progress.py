"""Progress on stderr: a tqdm bar on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Never

import click
from tqdm import tqdm

from harness.cli.live import LiveLatencies
from harness.drive import CellSpec
from harness.records import CellInfo, Complete, Invoke, Outcome
from workloads.plan import Phase

PLAIN_INTERVAL_S = 5.0
BAR_INTERVAL_S = 1.0


def _level_of(spec: CellSpec) -> str:
    return f"{spec.workload}, concurrency {spec.concurrency}"


def round_of(spec: CellSpec) -> str:
    """How a round of a check is called."""
    return f"{spec.workload}, round {spec.round_index + 1}"


class CellProgress:
    """Measured requests done, tokens per second, p50/p99 so far, failures and time left of the cell that is running.

    name_of: what a cell is called; by its load level unless told. silent: it says nothing.
    """

    def __init__(self, name_of: Callable[[CellSpec], str] = _level_of, *, silent: bool = False) -> None:
        self._name_of = name_of
        self._silent = silent
        self._bar: tqdm[Never] | None = None
        self._level = ""
        self._total: int | None = None
        self._started_s = self._told_s = 0.0
        self._done = self._failed = self._tokens = 0
        self._live = LiveLatencies()

    def cell_started(self, spec: CellSpec, requests: int | None) -> None:
        self._level = self._name_of(spec)
        self._total = requests
        self._started_s = self._told_s = time.monotonic()
        self._done = self._failed = self._tokens = 0
        self._live = LiveLatencies()
        if sys.stderr.isatty() and not self._silent:
            self._bar = tqdm(total=requests, desc=self._level, unit="req", leave=False, dynamic_ncols=True)

    def request_finished(self, invoke: Invoke, complete: Complete) -> None:
        if invoke.phase is Phase.WARMUP:
            return
        self._done += 1
        self._failed += complete.outcome is not Outcome.OK
        self._tokens += complete.output_tokens if complete.output_tokens is not None else 0
        if self._silent:
            return
        self._live.add(invoke, complete)
        if self._bar is not None:
            self._bar.update(1)
            if self._is_time(BAR_INTERVAL_S):
                self._bar.set_postfix_str(self._so_far(), refresh=False)
        elif self._is_time(PLAIN_INTERVAL_S):
            click.echo(f"{self._level}: {self._counts()}, {self._so_far()}{self._time_left()}", err=True)

    def _is_time(self, interval_s: float) -> bool:
        """Whether so much time has passed since it last was."""
        now_s = time.monotonic()
        if now_s - self._told_s < interval_s:
            return False
        self._told_s = now_s
        return True

    def cell_finished(self, info: CellInfo) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        if self._silent:
            return
        elapsed_s = time.monotonic() - self._started_s
        told = (self._rates(), self._live.spread())
        click.echo(f"{self._level}: {self._counts()} in {elapsed_s:.1f} s, {', '.join(filter(None, told))}", err=True)

    def close(self) -> None:
        """Put the terminal back in order after an interruption."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _counts(self) -> str:
        return f"{self._done} requests" if self._total is None else f"{self._done}/{self._total} requests"

    def _rates(self) -> str:
        elapsed_s = max(time.monotonic() - self._started_s, 1e-9)
        return f"{self._tokens / elapsed_s:.1f} tok/s, {self._failed} failed"

    def _so_far(self) -> str:
        return ", ".join(filter(None, (self._rates(), self._live.shown())))

    def _time_left(self) -> str:
        if self._total is None or not self._done:
            return ""
        left_s = (time.monotonic() - self._started_s) / self._done * (self._total - self._done)
        return f", about {left_s:.0f} s left"
