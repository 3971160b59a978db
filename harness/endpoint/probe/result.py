"""What a probe found: pure, and the same whether a person, a run folder or a gate reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workloads.plan import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One thing a server may do.

    works: None if it was not tried or could not be told. how: what was seen, or why it is not known. enable_with: the
    flag or body field that switches it on for this engine; empty where nothing does or nothing is needed.
    """

    works: bool | None
    how: str
    enable_with: str = ""

    def as_json(self) -> dict[str, Json]:
        return {"works": self.works, "how": self.how, "enable_with": self.enable_with}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One thing a server was started with; value None means that it does not tell, and `note` is the option to type."""

    value: str | int | None
    note: str = ""

    def as_json(self) -> dict[str, Json]:
        return {"value": self.value, "note": self.note}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """Everything that is known of a server; engine, version and max_model_len are None if it does not tell.

    capabilities: by the names of `harness.endpoint.probe.names.CAPABILITIES`. settings: block and chunk sizes and the
    like, by the names of `SETTINGS` there. requests: how many requests to the model it took.
    """

    engine: str | None
    version: str | None
    model: str
    max_model_len: int | None
    capabilities: Mapping[str, Capability]
    settings: Mapping[str, Setting] = field(default_factory=dict)
    requests: int = 0

    def works(self, name: str) -> bool | None:
        """Whether something works; None if that is not known."""
        found = self.capabilities.get(name)
        return None if found is None else found.works

    def as_json(self) -> dict[str, Json]:
        """The shape of `ling-bench probe --json` and of probe.json in a run folder."""
        return {
            "engine": self.engine,
            "version": self.version,
            "model": self.model,
            "max_model_len": self.max_model_len,
            "capabilities": {name: each.as_json() for name, each in self.capabilities.items()},
            "settings": {name: each.as_json() for name, each in self.settings.items()},
            "requests": self.requests,
        }
