"""--preset: a published deployment's sampling, context and figures in place of what was not typed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import click

from harness.memory.deployment import Deployment
from harness.records import TargetInfo
from workloads.plan import Json

PRESET_HELP = "A published deployment: its sampling and context, and its figures beside yours."
_SAMPLING = ("temperature", "top_p", "top_k")


def deployment_of(name: str | None) -> Deployment | None:
    """The deployment that was named, None if none was; UsageError, listing those there are, for another name."""
    if name is None:
        return None
    from harness.report.deployments import load_deployment

    try:
        return load_deployment(name)
    except LookupError as error:
        raise click.UsageError(f"--preset: {error.args[0]}") from None


def with_preset(given: Mapping[str, object], typed: Callable[[str], bool]) -> dict[str, object]:
    """The options with a preset's sampling wherever nothing was typed; the same without a preset.

    typed: whether an option was typed by its name. What is in --extra-body wins over the thinking switch.
    """
    name = given.get("preset")
    deployment = deployment_of(None if name is None else str(name))
    if deployment is None:
        return dict(given)
    fields = deployment.fields(str(given["endpoint_type"]))
    own = {each: fields.pop(each) for each in _SAMPLING if each in fields}
    chosen = {each: value for each, value in own.items() if not typed(each)}
    return {**given, **chosen, "preset": deployment.name, "extra_body": _merged(fields, given.get("extra_body"))}


def _merged(fields: Mapping[str, Json], extra_body: object) -> object:
    """Body fields as JSON text for --extra-body; what is no object is left to whoever checks it."""
    if not fields:
        return extra_body
    try:
        extra = {} if extra_body is None else json.loads(str(extra_body))
    except json.JSONDecodeError:
        return extra_body
    return json.dumps({**fields, **extra}) if isinstance(extra, dict) else extra_body


def tell_preset(name: str | None, fields: Mapping[str, Json], info: TargetInfo) -> None:
    """What a preset set and where that is from, and a server with less context than it plans on; on stderr."""
    deployment = deployment_of(name)
    if deployment is None:
        return
    click.echo(f"preset {deployment.name}: {json.dumps(fields)} ({deployment.sampling_source})", err=True)
    planned, offered = deployment.context_tokens, info.max_model_len
    if planned is not None and offered is not None and offered < planned:
        text = f"the preset plans on {planned:,} tokens of context, this server takes {offered:,}"
        click.echo(f"warning: {text}", err=True)
