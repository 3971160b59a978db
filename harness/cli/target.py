"""Which endpoint a command asks, what chose it, and what it says of itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import click

from harness.cli.advice import advice
from harness.cli.embedded import embedded_engine
from harness.cli.exits import NothingMeasured
from harness.endpoint.client import Client
from harness.endpoint.dialects import dialect_of
from harness.endpoint.discovery import Discovery, ServedModel, discover, pick_model
from harness.endpoint.errors import EndpointError
from harness.endpoint.secret import Secret
from harness.endpoint.target import Target, Timeouts, parse_header
from harness.endpoint.url import BaseUrl, counter_page, normalise_base_url
from harness.records import TargetInfo

EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointChoice:
    """The address and what chose it: "option --base-url", "environment OPENAI_BASE_URL" or "embedded"."""

    base: BaseUrl
    chosen_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a server is reached: key and headers, which are never written anywhere, and what goes with them.

    retries: how often a 429 is waited out. metrics_urls: pages of counters elsewhere; empty for the server's own.
    """

    api_key: Secret | None = None
    headers: Mapping[str, Secret] = field(default_factory=dict)
    retries: int = 0
    metrics_urls: tuple[str, ...] = ()


def parse_access(
    api_key: str | None, headers: Sequence[str], retries: int = 0, metrics_urls: Sequence[str] = ()
) -> Access:
    """Collect the key, the extra headers and what goes with them; UsageError if one is malformed."""
    try:
        parsed = dict(parse_header(text) for text in headers)
    except ValueError as error:
        raise click.UsageError(f"--header: {error}") from None
    try:
        pages = tuple(counter_page(url) for url in metrics_urls)
    except ValueError as error:
        raise click.UsageError(f"--metrics-url: {error}") from None
    return Access(api_key=Secret(api_key) if api_key else None, headers=parsed, retries=retries, metrics_urls=pages)


def settle(base_url: str | None, environment: Mapping[str, str]) -> EndpointChoice | None:
    """The address by option, then by OPENAI_BASE_URL; None means the embedded engine. UsageError if malformed."""
    text = base_url if base_url is not None else environment.get("OPENAI_BASE_URL") or None
    if text is None:
        return None
    source = "option --base-url" if base_url is not None else "environment OPENAI_BASE_URL"
    try:
        return EndpointChoice(base=normalise_base_url(text), chosen_by=source)
    except ValueError as error:
        raise click.UsageError(f"{source}: {error}") from None


def planned_endpoint(base_url: str | None, environment: Mapping[str, str]) -> str:
    """The first line a command writes to stderr: the target and what chose it."""
    choice = settle(base_url, environment)
    if choice is None:
        return "target: the embedded engine (chosen because neither --base-url nor OPENAI_BASE_URL is given)"
    return f"target: {choice.base.root} (chosen by {choice.chosen_by})"


@contextlib.contextmanager
def chosen_endpoint(base_url: str | None, environment: Mapping[str, str]) -> Iterator[EndpointChoice]:
    """The address settled; the embedded engine, where it is the choice, lives as long as the block."""
    choice = settle(base_url, environment)
    if choice is not None:
        yield choice
        return
    with embedded_engine() as url:
        yield EndpointChoice(base=normalise_base_url(url), chosen_by=EMBEDDED)


@contextlib.contextmanager
def announced(base_url: str | None, environment: Mapping[str, str]) -> Iterator[EndpointChoice]:
    """Name the target before anything is started or sent."""
    click.echo(planned_endpoint(base_url, environment), err=True)
    with chosen_endpoint(base_url, environment) as choice:
        yield choice


def make_target(
    choice: EndpointChoice,
    access: Access,
    model: str,
    endpoint_type: str,
    timeouts: Timeouts,
    engine: str | None = None,
) -> Target:
    """Put a target together for the client; engine: where it keeps its counters, None if it is not known yet."""
    return Target(
        base=choice.base,
        model=model,
        endpoint_type="completions" if endpoint_type == "completions" else "chat",
        api_key=access.api_key,
        headers=access.headers,
        timeouts=timeouts,
        rate_limit_retries=access.retries,
        counter_pages=access.metrics_urls if access.metrics_urls else (dialect_of(engine).metrics_path,),
    )


async def identify(client: Client, asked_model: str | None) -> tuple[Discovery, ServedModel]:
    """Ask the server what it is and settle the model.

    Raises NothingMeasured when it cannot be reached or refuses the key, UsageError when the model cannot be settled.
    """
    try:
        discovery = await discover(client)
    except EndpointError as error:
        raise NothingMeasured(advice(str(client.target.base.root), error.error)) from None
    try:
        return discovery, pick_model(discovery, asked_model)
    except LookupError as error:
        raise click.UsageError(str(error.args[0])) from None


def describe(choice: EndpointChoice, discovery: Discovery, model: ServedModel, endpoint_type: str) -> TargetInfo:
    """The identity of the endpoint for run.json and every report."""
    return TargetInfo(
        base_url=str(choice.base.root),
        chosen_by=choice.chosen_by,
        model=model.name,
        endpoint_type=endpoint_type,
        engine=discovery.engine,
        engine_version=discovery.engine_version,
        max_model_len=model.max_model_len,
        details=discovery.details,
    )
