"""`ling-bench repro`: one finding as a bundle that anybody can replay."""

from __future__ import annotations

import re
from pathlib import Path

import click

from harness.cli.disk import disk_trouble_is_a_message
from harness.cli.exits import Exit
from harness.report.bundle import find, write_bundle
from harness.store import RunFolder


@click.command("repro")
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("name", metavar="ID")
@click.option("--out", type=click.Path(path_type=Path), default=None, help="Folder to write; default: repro-ID here.")
def repro(run: Path, name: str, out: Path | None) -> int:
    """Write the requests behind finding ID of RUN, such as cached-tokens#1, as a bundle for a bug report.

    ID may also be the id of a single request. The bundle replays with Python or curl alone.
    """
    folder = Path("repro-" + re.sub(r"[^A-Za-z0-9.-]+", "-", name)) if out is None else out
    with disk_trouble_is_a_message(), RunFolder.open(run) as opened:
        try:
            click.echo(str(write_bundle(opened, find(opened, name), folder)))
        except LookupError as error:
            raise click.UsageError(str(error.args[0])) from None
        except FileExistsError:
            raise click.UsageError(f"{folder} exists already; name another one with --out") from None
    return Exit.PASS
