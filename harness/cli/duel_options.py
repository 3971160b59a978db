"""The endpoint options of `duel`: each once for both sides, and once for each with its letter in front."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import click

from harness.cli.options import SweepOptions
from harness.cli.presets import deployment_sampling
from workloads.plan import Json

SIDES = ("a", "b")
Decorated = Callable[..., int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOption:
    """One endpoint option: its name without dashes, how it is typed, and its value where nobody gives one."""

    name: str
    kind: click.Choice[str] | type[str] | type[float] | type[int] = str
    default: str | float | int | None = None
    multiple: bool = False
    environment: str | None = None
    help: str = ""


ENDPOINT_OPTIONS = (
    EndpointOption(name="base-url", environment=None, help="Server, with or without /v1."),
    EndpointOption(name="model", help="Model to ask; default: the only one served."),
    EndpointOption(name="endpoint-type", kind=click.Choice(["chat", "completions"]), default="chat", help="Route."),
    EndpointOption(name="api-key", environment="OPENAI_API_KEY", help="Bearer key; never saved. [env: OPENAI_API_KEY]"),
    EndpointOption(name="header", multiple=True, help="'NAME: VALUE', an extra request header; repeatable."),
    EndpointOption(name="tokenizer", help="tokenizer.json that counts outputs; the first side's sizes prompts too."),
    EndpointOption(name="connect-timeout", kind=float, default=10.0, help="Seconds."),
    EndpointOption(name="first-byte-timeout", kind=float, default=600.0, help="Seconds."),
    EndpointOption(name="stall-timeout", kind=float, default=120.0, help="Seconds."),
    EndpointOption(name="request-timeout", kind=float, default=3600.0, help="Seconds."),
    EndpointOption(name="label", help="What to call the side; default: its model."),
    EndpointOption(
        name="preset",
        help="Published deployment: its sampling and memory. A model preset or config.json: memory alone.",
    ),
    EndpointOption(name="retries", kind=int, default=0, help="Send again what was refused with 429; counted."),
    EndpointOption(name="metrics-url", multiple=True, help="Counters elsewhere, such as workers; repeatable."),
    EndpointOption(name="price-per-hour", help="For the cost of tokens."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOptions:
    """What was typed for one side, with what holds for both filled in.

    sampling: body fields of a published deployment that nothing typed replaces; empty without one.
    """

    letter: str
    base_url: str
    model: str | None
    endpoint_type: str
    api_key: str | None
    headers: tuple[str, ...]
    tokenizer: str | None
    connect_timeout_s: float
    first_byte_timeout_s: float
    stall_timeout_s: float
    request_timeout_s: float
    label: str | None
    preset: str | None
    price_per_hour: str | None
    sampling: Mapping[str, Json] = field(default_factory=dict)
    retries: int = 0
    metrics_urls: tuple[str, ...] = ()

    def applied_to(self, plan: SweepOptions) -> SweepOptions:
        """The plan as this side is asked it."""
        return replace(
            plan,
            model=self.model,
            sampling=self.sampled(plan.sampling),
            preset=self.preset if self.sampling else None,
            retries=self.retries,
            metrics_urls=self.metrics_urls,
            endpoint_type=self.endpoint_type,
            tokenizer=self.tokenizer,
            connect_timeout_s=self.connect_timeout_s,
            first_byte_timeout_s=self.first_byte_timeout_s,
            stall_timeout_s=self.stall_timeout_s,
            request_timeout_s=self.request_timeout_s,
        )

    def sampled(self, shared: Mapping[str, Json]) -> dict[str, Json]:
        """Body fields of this side's requests: those of both, and its deployment's for what nobody typed."""
        return {**shared, **self.sampling}


def endpoint_options(command: Decorated) -> Decorated:
    """Every endpoint option three times: for both sides, with a- and with b- in front."""
    for option in reversed(ENDPOINT_OPTIONS):
        for prefix in reversed(("", *SIDES)):
            command = _declared(option, prefix)(command)
    return command


def _declared(option: EndpointOption, prefix: str) -> Callable[[Decorated], Decorated]:
    name = f"{prefix}-{option.name}" if prefix else option.name
    flags = [f"--{name}"]
    if option.name == "base-url":
        flags += [f"--{prefix}-url", f"--{prefix}"] if prefix else ["--url"]
    return click.option(
        *flags,
        name.replace("-", "_"),
        type=option.kind,
        multiple=option.multiple,
        default=None,
        hidden=bool(prefix) and option.name != "base-url",
        envvar=option.environment if not prefix else None,
        help=f"{option.help} Side {prefix}." if prefix else _help_for_both(option),
    )


def _help_for_both(option: EndpointOption) -> str:
    default = "" if option.default is None else f" Default: {option.default}."
    return f"{option.help}{default} Both sides; --a-{option.name}, --b-{option.name} for one."


def side_options(side: str, given: Mapping[str, object], typed: frozenset[str] = frozenset()) -> SideOptions:
    """One side's options: its own, else those for both, else the defaults. UsageError without an address.

    typed: sampling fields that were typed, which win over a deployment's.
    """
    base_url = _chosen(side, "base-url", given)
    if base_url is None:
        raise click.UsageError(f"--{side} URL is missing: which server is side {side.upper()}?")
    texts = {name: _text(_chosen(side, name, given)) for name in ("model", "tokenizer", "label", "preset")}
    seconds = {name: _seconds(_chosen(side, name, given)) for name in _TIMEOUTS}
    headers, pages = _chosen(side, "header", given), _chosen(side, "metrics-url", given)
    retries = _chosen(side, "retries", given)
    endpoint_type = str(_chosen(side, "endpoint-type", given))
    return SideOptions(
        letter=side.upper(),
        base_url=str(base_url),
        endpoint_type=endpoint_type,
        retries=retries if isinstance(retries, int) else 0,
        metrics_urls=pages if isinstance(pages, tuple) else (),
        sampling=deployment_sampling(texts["preset"], endpoint_type, typed),
        api_key=_text(_chosen(side, "api-key", given)),
        headers=headers if isinstance(headers, tuple) else (),
        price_per_hour=_text(_chosen(side, "price-per-hour", given)),
        connect_timeout_s=seconds["connect-timeout"],
        first_byte_timeout_s=seconds["first-byte-timeout"],
        stall_timeout_s=seconds["stall-timeout"],
        request_timeout_s=seconds["request-timeout"],
        **texts,
    )


_TIMEOUTS = ("connect-timeout", "first-byte-timeout", "stall-timeout", "request-timeout")


def _chosen(side: str, name: str, given: Mapping[str, object]) -> object:
    field = name.replace("-", "_")
    for value in (given[f"{side}_{field}"], given[field]):
        if value is not None and value != ():
            return value
    return next(option.default for option in ENDPOINT_OPTIONS if option.name == name)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _seconds(value: object) -> float:
    assert isinstance(value, float)
    return value
