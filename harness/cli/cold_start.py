"""--cold-by: emptying or flooding the server's cache before every cell, and keeping how that went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import click

from harness.cli.counting import SAMPLE, Counting
from harness.cli.exits import NothingMeasured
from harness.cli.options import SweepOptions
from harness.clock import Clock
from harness.drive import CellSpec
from harness.drive.cold import ColdBy, ColdOptions, start_cold
from harness.endpoint.client import Client
from harness.endpoint.target import Target
from harness.store import RunFolder

NONCE = "nonce"
COLD_BY = (NONCE, "flush", "flood")
Decorated = Callable[..., int]


def cold_options(command: Decorated) -> Decorated:
    """--cold-by, what other tools call its flush, and --allow-l3-clear."""
    options = (
        click.option(
            "--cold-by", type=click.Choice(COLD_BY), default=NONCE, show_default=True,
            help="nonce: disturbs nobody. flush: the server's own route before every cell, proved by the next count."
            " flood: distinct prompts by its capacity. The last two are for a server of your own.",
        ),
        click.option("--flush-cache", "--reset-kv-cache", is_flag=True, help="The same as --cold-by flush."),
        click.option("--allow-l3-clear", is_flag=True, help="A flush empties the tier behind (L3) too, first."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


async def reached_cold(
    run: RunFolder, options: SweepOptions, spec: CellSpec, target: Target, counting: Counting, clock: Clock
) -> CellSpec:
    """The cell with how its cold start was reached; NothingMeasured if it was not, the cell itself under a nonce."""
    if options.cold_by == NONCE:
        return spec
    by: ColdBy = "flush" if options.cold_by == "flush" else "flood"
    counted = counting.count(SAMPLE)
    ratio = len(SAMPLE) / counted if counted > 0 else 4.0
    async with Client(target, clock) as client:
        cold = ColdOptions(by=by, clear_l3=options.allow_l3_clear)
        reached = await start_cold(client, clock, run.info.target, cold, ratio, run.info.notes)
    if reached.trouble is not None:
        raise NothingMeasured(f"--cold-by {by}: {reached.trouble}. --cold-by {NONCE} needs nothing of the server")
    proof = {True: "proved", None: "not proved: no cached tokens are reported"}.get(reached.verified, "not proved")
    click.echo(f"cold by {by} for {spec.cell}: {proof} ({reached.requests} requests)", err=True)
    return replace(spec, cold_start=reached.as_json())
