"""Options of every command that asks for long: rate limits waited out, counters that stand elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import click

Decorated = Callable[..., int]


def manners_options(command: Decorated) -> Decorated:
    """--retries and --metrics-url."""
    options = (
        click.option(
            "--retries", type=click.IntRange(min=0), default=0, show_default=True,
            help="Send a request again that was refused with 429, after the wait the server names; counted.",
        ),
        click.option(
            "--metrics-url", "metrics_urls", multiple=True, metavar="URL",
            help="Counters elsewhere, such as workers behind a router; repeatable. The key is not sent there.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command
