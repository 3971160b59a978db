"""What is told while prompts are made, before the first cell: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Never

import click
from tqdm import tqdm

from workloads.plan import Json
from workloads.sessions import GivenSessions, Session, SessionFamily

PLAIN_INTERVAL_S = 5.0


class PromptProgress:
    """Requests written so far; the total is the one asked for, None where nothing was asked for."""

    def __init__(self) -> None:
        self._bar: tqdm[Never] | None = None
        self._what = ""
        self._total: int | None = None
        self._made = 0
        self._told_s = 0.0
        self._active = False

    def started(self, what: str, total: int | None) -> None:
        """A plan is begun; `what` it is for, `total` requests."""
        self.finished()
        self._what, self._total, self._made, self._active = what, total, 0, True
        self._told_s = time.monotonic()
        if sys.stderr.isatty():
            self._bar = tqdm(total=total, desc=f"making prompts: {what}", unit="req", leave=False, dynamic_ncols=True)

    def made(self, requests: int) -> None:
        """So many more requests are written."""
        if not self._active:
            return
        self._made += requests
        if self._bar is not None:
            self._bar.update(requests)
        elif time.monotonic() - self._told_s >= PLAIN_INTERVAL_S:
            self._told_s = time.monotonic()
            of = "" if self._total is None else f" of {self._total:,}"
            click.echo(f"making prompts: {self._what}: {self._made:,}{of} requests", err=True)

    def finished(self) -> None:
        """The plan is made, or given up."""
        self._active = False
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class WatchedFamily:
    """A family of sessions that tells of every session it makes."""

    def __init__(self, family: SessionFamily, progress: PromptProgress) -> None:
        self._family = family
        self._progress = progress

    @property
    def name(self) -> str:
        return self._family.name

    @property
    def version(self) -> int:
        return self._family.version

    @property
    def default_turns(self) -> int:
        return self._family.default_turns

    @property
    def given_sessions(self) -> GivenSessions | None:
        return self._family.given_sessions

    def spec(self) -> Mapping[str, Json]:
        return self._family.spec()

    def session(self, group: str, index: int, turns: int) -> Session:
        made = self._family.session(group, index, turns)
        self._progress.made(len(made.turns))
        return made
