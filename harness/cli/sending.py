"""What sends the requests of a run: this process, or several at its orders."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

from harness.clock import Clock
from harness.drive.workers import WorkerPool, WorkersDied, worker_pool
from harness.endpoint.client import Client
from harness.endpoint.target import Target


@asynccontextmanager
async def sending(target: Target, clock: Clock, workers: int) -> AsyncIterator[Client | WorkerPool]:
    """A client, or a pool of `workers` processes that do its work; a message for the user if they do not start."""
    async with Client(target, clock) as client:
        if workers == 1:
            yield client
            return
        try:
            async with worker_pool(client, clock, workers) as pool:
                yield pool
        except WorkersDied as death:
            raise click.ClickException(f"--workers {workers}: {death}; try fewer") from None
