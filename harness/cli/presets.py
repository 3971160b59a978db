"""--preset: a published deployment's sampling, context and figures in place of what was not typed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import click
from click.core import ParameterSource

from harness.cli.sampling import read_sampling
from harness.memory.deployment import Deployment
from harness.records import TargetInfo
from workloads.plan import Json

PRESET_HELP = "A published deployment: its sampling and context, and its figures beside yours."
_SAMPLING = ("temperature", "top_p", "top_k")
_NOT_FOR_CHECKS = frozenset({*_SAMPLING, "seed", "model", "messages", "prompt", "stream", "max_tokens"})


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


def from_preset(given: Mapping[str, object]) -> dict[str, object]:
    """What --preset and --extra-body set for checks; UsageError if either is malformed.

    The acceptance expected on real text stands where none was typed. Sampling may not be typed: most checks need greedy
    answers.
    """
    name, extra = given.get("preset"), extra_fields(given.get("extra_body"))
    deployment = deployment_of(None if name is None else str(name))
    if deployment is None:
        return {"extra_body": extra}
    typed = given.get("expect_acceptance")
    expected = deployment.expected_acceptance if typed is None else typed
    return {"extra_body": extra, "preset": deployment.name, "expect_acceptance": expected}


def extra_fields(text: object) -> dict[str, Json]:
    """--extra-body of a command that sets the sampling itself; UsageError if malformed, or if it sets that too."""
    try:
        extra = {} if text is None else json.loads(str(text))
    except json.JSONDecodeError as error:
        raise click.UsageError(f"--extra-body is not JSON: {error}") from None
    if not isinstance(extra, dict):
        raise click.UsageError("--extra-body must be a JSON object")
    if reserved := sorted(_NOT_FOR_CHECKS & set(extra)):
        raise click.UsageError(f"--extra-body may not set {', '.join(reserved)}: each request brings its own")
    return extra


def sampled_fields(name: str | None) -> dict[str, dict[str, Json]]:
    """By endpoint type, the sampling of the checks that need no greedy answers; empty without a preset."""
    deployment = deployment_of(name)
    return {} if deployment is None else {each: deployment.fields(each) for each in ("chat", "completions")}


def tell_checks_preset(name: str | None, checks: Sequence[str], info: TargetInfo) -> None:
    """What a preset sets and for which checks; the others say that they stay greedy."""
    deployment = deployment_of(name)
    if deployment is None:
        return
    from harness.drive.checking import SAMPLED

    tell_preset(name, deployment.fields("chat"), info)
    greedy = [each for each in checks if each not in SAMPLED]
    sampled = [each for each in checks if each in SAMPLED]
    if sampled:
        click.echo(f"      sampled so: {', '.join(sampled)} (the thinking switch on the chat route only)", err=True)
    if greedy:
        click.echo(f"      at temperature 0, because they need greedy answers: {', '.join(greedy)}", err=True)


def typed_sampling(given: Mapping[str, object]) -> frozenset[str]:
    """Sampling fields that the running command was told: by their own options, or in --extra-body."""
    context = click.get_current_context()
    own = (name for name in _SAMPLING if context.get_parameter_source(name) is ParameterSource.COMMANDLINE)
    try:
        extra = read_sampling({**given, "temperature": None, "top_p": None, "top_k": None, "ignore_eos": False})
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return frozenset((*own, *extra))


def deployment_sampling(name: str | None, endpoint_type: str, typed: frozenset[str]) -> dict[str, Json]:
    """A published deployment's body fields but for those that were typed; empty for a model or no name at all."""
    from harness.report.deployments import deployment_names, load_deployment

    if name is None or name not in deployment_names():
        return {}
    fields = load_deployment(name).fields(endpoint_type)
    return {each: value for each, value in fields.items() if each not in typed}
