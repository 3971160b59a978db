"""How a command comes by exact lengths: a few short requests, said before and after."""

from __future__ import annotations

import click

from harness.cli.counting import Counting
from harness.cli.options import SweepOptions
from harness.clock import Clock
from harness.drive.lengths import NotExact, Sizing, find_sizing
from harness.endpoint.client import Client
from harness.endpoint.target import Target
from harness.store import RunFolder


async def sized(
    run: RunFolder, options: SweepOptions, counting: Counting, target: Target, clock: Clock, *, text_only: bool = False
) -> Sizing:
    """Ask a server how it counts, as a cell of the run; UsageError if exact lengths cannot be had.

    text_only: prompts are not sent as token ids, because a server with other ids is asked the same.
    """
    click.echo("exact lengths: finding out how the server counts, with a few short requests", err=True)
    count = counting.count if counting.exact else None
    try:
        async with Client(target, clock) as client:
            sizing = await find_sizing(
                run,
                client,
                clock,
                count=count,
                seed=options.seed,
                nonce=options.cache != "keep",
                text_only=text_only,
            )
    except NotExact as error:
        raise click.UsageError(f"--exact-lengths: {error}") from None
    said = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in sizing.ruler.as_json().items())
    click.echo(f"exact lengths: {said}", err=True)
    return sizing
