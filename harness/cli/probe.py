"""`ling-bench probe`: what a server is, and what of it works."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import click
import orjson

from harness.cli.exits import Exit, NothingMeasured
from harness.cli.options import parse_note
from harness.cli.presets import extra_fields
from harness.cli.running import run_async
from harness.cli.target import EMBEDDED, Access, EndpointChoice, announced, identify, make_target, parse_access
from harness.clock import MonotonicClock
from harness.endpoint.client import Client
from harness.endpoint.probe.result import ProbeResult
from harness.endpoint.probe.run import NothingAnswered, ProbeOptions, probe
from harness.endpoint.target import Timeouts
from workloads.plan import Json

CLOCK = MonotonicClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRequest:
    """A checked command line."""

    base_url: str | None
    access: Access
    model: str | None
    exclusive: bool
    notes: Mapping[str, str]
    timeouts: Timeouts
    extra_body: Mapping[str, Json]
    as_json: bool


@click.command("probe")
@click.option("--base-url", "--url", default=None, help="Server, with or without /v1. [env: OPENAI_BASE_URL]")
@click.option("--model", default=None, help="Model to ask; default: the only one served.")
@click.option("--api-key", envvar="OPENAI_API_KEY", default=None, help="Bearer key; never saved. [env: OPENAI_API_KEY]")
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Extra request header; repeatable.")
@click.option(
    "--exclusive-server", is_flag=True,
    help="Nobody else uses the server: its cache may be emptied. Implied by the embedded engine.",
)  # fmt: skip
@click.option("--extra-body", default=None, metavar="JSON", help="More fields of every request; no sampling.")
@click.option(
    "--metrics-url", "metrics_urls", multiple=True, metavar="URL",
    help="Counters elsewhere, such as workers behind a router; repeatable. The key is not sent there.",
)  # fmt: skip
@click.option("--note", "notes", multiple=True, metavar="KEY=VALUE", help="A setting it does not tell; repeatable.")
@click.option("--connect-timeout", "connect_timeout_s", type=float, default=10.0, show_default=True, help="Seconds.")
@click.option("--request-timeout", "request_timeout_s", type=float, default=120.0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON instead of the table.")
def probe_command(**given: object) -> int:
    """Find out what a server is and what of it works, each thing tried with a tiny request.

    Some thirty requests, one after the other; nothing that disturbs others without --exclusive-server. For each thing
    that does not work, the flag or body field that switches it on.
    """
    request = _request(given)
    return run_async(lambda: _run(request))


def _request(given: Mapping[str, object]) -> ProbeRequest:
    """Check what was typed; every mistake is a UsageError before anything is sent."""
    headers, notes, pages = given["headers"], given["notes"], given["metrics_urls"]
    assert isinstance(headers, tuple) and isinstance(notes, tuple) and isinstance(pages, tuple)
    key = None if given["api_key"] is None else str(given["api_key"])
    connect_s, total_s = given["connect_timeout_s"], given["request_timeout_s"]
    assert isinstance(connect_s, float) and isinstance(total_s, float)
    try:
        noted = dict(parse_note(str(text)) for text in notes)
        timeouts = Timeouts(connect_s=connect_s, first_byte_s=total_s, stall_s=total_s, total_s=total_s)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return ProbeRequest(
        base_url=None if given["base_url"] is None else str(given["base_url"]),
        access=parse_access(key, [str(header) for header in headers], metrics_urls=[str(page) for page in pages]),
        model=None if given["model"] is None else str(given["model"]),
        exclusive=given["exclusive_server"] is True,
        notes=noted,
        timeouts=timeouts,
        extra_body=extra_fields(given["extra_body"]),
        as_json=given["as_json"] is True,
    )


async def _run(request: ProbeRequest) -> int:
    from harness.report.probe_table import probe_table

    with announced(request.base_url, dict(os.environ)) as choice:
        result = await _probed(request, choice)
    if request.as_json:
        click.echo(orjson.dumps(result.as_json(), option=orjson.OPT_INDENT_2).decode())
    else:
        click.echo(probe_table(result))
    return Exit.PASS


async def _probed(request: ProbeRequest, choice: EndpointChoice) -> ProbeResult:
    asked = request.model if request.model is not None else ""
    client = Client(make_target(choice, request.access, asked, "completions", request.timeouts), CLOCK)
    async with client:
        discovery, model = await identify(client, request.model)
    target = make_target(choice, request.access, model.name, "completions", request.timeouts, discovery.engine)
    options = ProbeOptions(
        exclusive=request.exclusive or choice.chosen_by == EMBEDDED,
        notes=request.notes,
        extra_body=request.extra_body,
    )
    async with Client(target, CLOCK) as client:
        try:
            return await probe(client, CLOCK, discovery, model, options)
        except NothingAnswered as trouble:
            raise NothingMeasured(f"{choice.base.root}: no request to {model.name} was answered: {trouble}") from None
