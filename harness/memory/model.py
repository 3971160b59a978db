"""A config.json as a whole: find its family, read its layers, count its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.memory.families.registry import FAMILIES, Family
from harness.memory.fields import ConfigError, Fields
from harness.memory.parameters import ParameterCount
from harness.memory.shape import ModelShape
from workloads.plan import Json

# Fields of models that keep something besides what the families here count; reading on would give a wrong answer.
UNCOUNTED = ("index_topk", "compress_ratios", "kv_sharing_layer_map", "num_kv_shared_layers", "attn_type_list")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryModel:
    """A model as its config describes it.

    parameters: None when the config lacks a field that the count needs; parameters_missing then says which.
    """

    shape: ModelShape
    parameters: ParameterCount | None = None
    parameters_missing: str | None = None

    @property
    def name(self) -> str:
        """What tables call the model."""
        return self.shape.name


def read_model(name: str, config: Mapping[str, Json]) -> MemoryModel:
    """Read a config.json; ConfigError says what could not be read, and nothing is guessed in its place."""
    family, fields = _family_of(name, config)
    for field in UNCOUNTED:
        if config_says(fields, field):
            raise ConfigError(f"{name}: the config has {field}, and a cache of that kind is not counted here")
    shape = family.read(fields, name)
    try:
        return MemoryModel(shape=shape, parameters=ParameterCount(components=family.count(fields)))
    except ConfigError as error:
        return MemoryModel(shape=shape, parameters_missing=str(error))


def config_says(fields: Fields, name: str) -> bool:
    """Whether a field is there and is neither null, zero nor empty."""
    return fields.values.get(name) not in (None, 0, [], {})


def _family_of(name: str, config: Mapping[str, Json]) -> tuple[Family, Fields]:
    """The reader of a config; the text model inside a multimodal config comes first."""
    text = config.get("text_config")
    inner = text if isinstance(text, Mapping) else {}
    candidates = [values for values in (inner, config) if values]
    seen = []
    for values in candidates:
        kind = values.get("model_type")
        seen.append(repr(kind))
        if isinstance(kind, str) and kind in FAMILIES:
            return FAMILIES[kind], Fields(family=f"{name} ({kind})", values=inner or config)
    known = ", ".join(sorted(FAMILIES))
    raise ConfigError(f"{name}: model_type {' / '.join(seen)} is not known here; known are {known}")
