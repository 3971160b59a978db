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
def serve(**given: object) -> int:
    """Run the embedded engine alone on a port, until Ctrl-C.

    The first line on stdout is JSON with its address: {"listening": "http://127.0.0.1:PORT"}.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        options = EngineOptions(**given)  # type: ignore[arg-type]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    from harness.reference.server import run

    run(options)
    return 0
