"""Models known by name: a config's fields with the place they were read, and what the vendor says of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.plan import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A figure somebody published about a model, and who."""

    value: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A model shipped as data.

    config: the fields of its config.json that matter here. source: where they were read, and which of them were not
    read but taken from elsewhere. card_context_tokens: what the model card promises. weight_bytes: size of the
    checkpoint. loaded_bytes: over all GPUs, before any cache. None and empty: not known.
    """

    name: str
    source: str
    config: Mapping[str, Json]
    card_context_tokens: int | None = None
    active_parameters: tuple[Claim, ...] = ()
    total_parameters: tuple[Claim, ...] = ()
    weight_bytes: Claim | None = None
    loaded_bytes: Claim | None = None


def parse_preset(document: Mapping[str, Json]) -> Preset:
    """Read one preset file; ValueError names what is wrong with it."""
    name, source, config = document.get("name"), document.get("source"), document.get("config")
    if not isinstance(name, str) or not isinstance(source, str) or not isinstance(config, Mapping):
        raise ValueError(f"a preset needs name, source and config: {name!r}")
    context = document.get("card_context_tokens")
    if context is not None and not isinstance(context, int):
        raise ValueError(f"{name}: card_context_tokens is {context!r}")
    return Preset(
        name=name,
        source=source,
        config=config,
        card_context_tokens=context,
        active_parameters=_claims(name, document, "active_parameters"),
        total_parameters=_claims(name, document, "total_parameters"),
        weight_bytes=_claim(name, document.get("weight_bytes")),
        loaded_bytes=_claim(name, document.get("loaded_bytes")),
    )


def _claims(name: str, document: Mapping[str, Json], field_name: str) -> tuple[Claim, ...]:
    listed = document.get(field_name, [])
    if not isinstance(listed, list):
        raise ValueError(f"{name}: {field_name} is not a list")
    claims = tuple(_claim(name, item) for item in listed)
    return tuple(claim for claim in claims if claim is not None)


def _claim(name: str, item: Json) -> Claim | None:
    if item is None:
        return None
    if not isinstance(item, Mapping):
        raise ValueError(f"{name}: {item!r} is not a published figure")
    value, source = item.get("value"), item.get("source")
    if isinstance(value, bool) or not isinstance(value, int | float) or not isinstance(source, str):
        raise ValueError(f"{name}: a published figure needs value and source: {item!r}")
    return Claim(value=float(value), source=source)
