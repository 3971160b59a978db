"""Asking a running server what it says of its own cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from harness.cli.exits import NothingMeasured
from harness.cli.running import run_async
from harness.cli.target import EndpointChoice, make_target, parse_access
from harness.clock import MonotonicClock
from harness.endpoint.client import Client
from harness.endpoint.dialects.prometheus import parse_counters
from harness.endpoint.discovery import discover
from harness.endpoint.errors import EndpointError
from harness.endpoint.target import METRICS_PATH, Timeouts
from harness.endpoint.url import normalise_base_url
from harness.memory.measured import Reported, read_sglang, read_vllm
from workloads.plan import Json


def ask_server(base_url: str, api_key: str | None, headers: Sequence[str]) -> Reported:
    """The server's own account; UsageError on a bad address, NothingMeasured if it says nothing about its cache."""
    try:
        base = normalise_base_url(base_url)
    except ValueError as error:
        raise click.UsageError(f"--base-url: {error}") from None
    choice = EndpointChoice(base=base, chosen_by="option --base-url")
    target = make_target(choice, parse_access(api_key, headers), "", "chat", Timeouts())

    async def ask() -> Reported | None:
        async with Client(target, MonotonicClock()) as client:
            return await _reported(client)

    reported = run_async(ask)
    if reported is None:
        raise NothingMeasured(
            f"{base.root} does not say what its cache holds (vLLM and SGLang with --enable-metrics do)"
        )
    return reported


async def _reported(client: Client) -> Reported | None:
    try:
        discovery = await discover(client)
    except EndpointError as error:
        raise NothingMeasured(f"{client.target.base.root} cannot be asked: {error.error.message}") from None
    lengths = [model.max_model_len for model in discovery.models if model.max_model_len is not None]
    longest = max(lengths, default=None)
    try:
        counters = parse_counters(await client.get_text(METRICS_PATH))
    except (EndpointError, ValueError):
        counters = {}
    if discovery.engine == "sglang":
        return read_sglang(counters, await _server_info(client), longest)
    return read_vllm(counters, longest)


async def _server_info(client: Client) -> Mapping[str, Json]:
    try:
        info = await client.get_json("/server_info")
    except EndpointError:
        return {}
    return info if isinstance(info, dict) else {}
