"""The second server of a comparison: the same model, as a rule without drafts."""

from __future__ import annotations

from dataclasses import dataclass

import click

from harness.checks.check import Check
from harness.cli.target import Access, EndpointChoice, identify, make_target
from harness.clock import Clock
from harness.drive.checking import CheckSetting, ask_elsewhere
from harness.drive.progress import Progress
from harness.endpoint.client import Client
from harness.endpoint.secret import Secret
from harness.endpoint.target import Timeouts
from harness.endpoint.url import normalise_base_url
from harness.store import RunFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherServer:
    """Where it is and what opens it; model None: the only one it serves."""

    choice: EndpointChoice
    access: Access
    model: str | None = None


def parse_other(url: str | None, model: str | None, api_key: str | None) -> OtherServer | None:
    """The server that was named; None if none was. UsageError for a malformed address, or options without one."""
    if url is None:
        if model is not None or api_key is not None:
            raise click.UsageError("--other-model and --other-api-key need --other-url")
        return None
    try:
        choice = EndpointChoice(base=normalise_base_url(url), chosen_by="option --other-url")
    except ValueError as error:
        raise click.UsageError(f"--other-url: {error}") from None
    return OtherServer(choice=choice, access=Access(api_key=Secret(api_key) if api_key else None), model=model)


async def ask_other(
    other: OtherServer,
    check: Check,
    setting: CheckSetting,
    run: RunFolder,
    clock: Clock,
    timeouts: Timeouts,
    progress: Progress,
) -> None:
    """Ask the other server the first round of a check.

    Raises NothingMeasured when it cannot be reached, UsageError when its model cannot be settled.
    """
    asked = other.model if other.model is not None else ""
    async with Client(make_target(other.choice, other.access, asked, "chat", timeouts), clock) as client:
        _, model = await identify(client, other.model)
    target = make_target(other.choice, other.access, model.name, setting.endpoint_type, timeouts)
    async with Client(target, clock) as client:
        await ask_elsewhere(check, setting, run, client, clock, progress)
