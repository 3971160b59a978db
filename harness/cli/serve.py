"""`ling-bench serve`: the embedded engine alone on a port."""

from __future__ import annotations

import os
from collections.abc import Callable

import click

from harness.reference.options import OPTIONS, EngineOptions, Option


def _click_option(option: Option) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """One engine setting as a click option."""
    if option.kind is bool:
        return click.option(option.flag, option.name, is_flag=True, help=option.help)
    if option.repeated:
        return click.option(option.flag, option.name, type=option.kind, multiple=True, help=option.help)
    kind = click.Choice(option.choices) if option.choices is not None else option.kind
    return click.option(
        option.flag, option.name, type=kind, default=option.default, show_default=True, help=option.help
    )


def _with_engine_options(command: Callable[..., int]) -> Callable[..., int]:
    for option in reversed(OPTIONS):
        command = _click_option(option)(command)
    return command


@click.command("serve")
@_with_engine_options
@click.option("--list-faults", is_flag=True, help="Print the faults that can be planted, and stop.")
def serve(list_faults: bool, **given: object) -> int:
    """Run the embedded engine alone on a port, until Ctrl-C.

    The first line on stdout is JSON with its address: {"listening": "http://127.0.0.1:PORT"}.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from harness.reference.faults.spec import describe_faults
    from harness.reference.server.running import run

    if list_faults:
        click.echo("\n".join(describe_faults()))
        return 0
    try:
        run(EngineOptions(**given))  # type: ignore[arg-type]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return 0
