"""What sends the requests of a run: this process, or several at its orders."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import click

from harness.cli.options import RAY, SweepOptions
from harness.clock import Clock
from harness.drive.workers import WorkerPool, WorkersDied, local_links, ray_links, worker_pool
from harness.endpoint.client import Client
from harness.endpoint.target import Target

Decorated = Callable[..., int]


def workers_options(command: Decorated) -> Decorated:
    """--workers, --engine and --ray-address."""
    options = (
        click.option(
            "--workers", default="1", show_default=True, metavar="N|auto",
            help="Processes that send; one plan, one record.",
        ),
        click.option(
            "--engine", "worker_engine", type=click.Choice(["local", RAY]), default="local", show_default=True,
            help="Where they run: this machine, or the nodes of a Ray cluster (pip install 'ling-bench[ray]').",
        ),
        click.option("--ray-address", default=None, metavar="HOST:PORT", help="Default: the cluster Ray finds."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@asynccontextmanager
async def sending(target: Target, clock: Clock, options: SweepOptions) -> AsyncIterator[Client | WorkerPool]:
    """A client, or a pool of processes that do its work; a message for the user if they do not start."""
    count = options.worker_count
    async with Client(target, clock) as client:
        if options.worker_engine == RAY:
            links = ray_links(count, options.ray_address, clock)
        elif count > 1:
            links = local_links(count, clock)
        else:
            yield client
            return
        try:
            async with worker_pool(client, clock, links) as pool:
                yield pool
        except WorkersDied as death:
            raise click.ClickException(f"--workers {count}: {death}") from None
