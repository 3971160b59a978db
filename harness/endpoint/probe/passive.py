"""What is known of a server without asking its model anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Protocol

from harness.endpoint.counters import COUNTER_NAMES, engine_of_counters
from harness.endpoint.dialects import dialect_of
from harness.endpoint.dialects.base import Dialect, Settings
from harness.endpoint.dialects.prometheus import parse_counters
from harness.endpoint.discovery import Discovery, ServedModel
from harness.endpoint.errors import EndpointError
from harness.endpoint.probe.names import CAPABILITIES, SETTINGS
from harness.endpoint.probe.result import Capability, ProbeResult, Setting
from harness.endpoint.side import TextSource
from harness.endpoint.target import Target

NOT_TRIED = "not tried in this run; ling-bench probe tries it"


class CountedPort(TextSource, Protocol):
    """What reads pages, and knows where the counters are."""

    @property
    def target(self) -> Target:
        """Whom it talks to."""
        ...


async def discovered(
    client: CountedPort, discovery: Discovery, model: ServedModel, notes: Mapping[str, str]
) -> ProbeResult:
    """The cheap part: engine, settings and counters; every other capability is not known. At most one GET."""
    dialect = dialect_of(discovery.engine)
    capabilities = {
        name: Capability(works=None, how=NOT_TRIED, enable_with=dialect.enable_with.get(name, ""))
        for name in CAPABILITIES
    }
    capabilities["counters"] = await look_at_counters(client, dialect)
    return assembled(discovery, model, capabilities, notes)


def assembled(
    discovery: Discovery,
    model: ServedModel,
    capabilities: Mapping[str, Capability],
    notes: Mapping[str, str],
    requests: int = 0,
) -> ProbeResult:
    """A result with every capability in its order; what nobody looked at is not known."""
    dialect = dialect_of(discovery.engine)
    unknown = Capability(works=None, how=NOT_TRIED)
    return ProbeResult(
        engine=discovery.engine,
        version=discovery.engine_version,
        model=model.name,
        max_model_len=model.max_model_len,
        capabilities={name: capabilities.get(name, unknown) for name in CAPABILITIES},
        settings=told_settings(dialect.read_settings(discovery.details), notes),
        requests=requests,
    )


def told_settings(settings: Settings, notes: Mapping[str, str]) -> dict[str, Setting]:
    """Every setting with its value, the operator's note where the server is silent, or the note to write."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    told: dict[str, Setting] = {}
    for name in SETTINGS:
        value = values.get(name)
        if value is not None:
            told[name] = Setting(value=value)
        elif name in notes:
            told[name] = Setting(value=notes[name], note="by --note")
        elif name in values:
            told[name] = Setting(value=None, note=f"--note {name}=VALUE")
    return told


async def look_at_counters(client: CountedPort, dialect: Dialect) -> Capability:
    """Which of our meanings the pages have names for."""
    pages = client.target.counter_pages
    where, enable_with = " and ".join(pages), dialect.enable_with.get("counters", "")
    values: dict[str, float] = {}
    for page in pages:
        try:
            values.update(parse_counters(await client.get_text(page)))
        except EndpointError as trouble:
            return Capability(works=False, how=f"{page}: {str(trouble)[:120]}", enable_with=enable_with)
        except ValueError:
            how = f"{page} is not in the Prometheus text format"
            return Capability(works=False, how=how, enable_with=enable_with)
    known = _known_meanings(values)
    if not known:
        return Capability(
            works=False, how=f"{where}: {len(values)} values, none of a known name", enable_with=enable_with
        )
    return Capability(works=True, how=f"{where}: {', '.join(known)}")


def _known_meanings(values: Mapping[str, float]) -> list[str]:
    """Our meanings that the counters have, by the names of the engine whose they are."""
    engine = engine_of_counters(values)
    bare = {name.partition("{")[0] for name in values}
    return [
        meaning
        for meaning, alternatives in (COUNTER_NAMES.get(engine, {}) if engine is not None else {}).items()
        if any(bare.issuperset(names) for names in alternatives)
    ]
