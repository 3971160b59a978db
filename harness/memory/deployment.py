"""A deployment that somebody published: how its model is to be sampled, and what is expected of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workloads.plan import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One published deployment, each figure with its source.

    sampling: body fields that the model's vendor recommends. thinking: body fields of chats that switch it on.
    context_tokens: what to plan on. expected_acceptance: acceptance length on real text. memory_preset: its name in
    presets/. published: names of published figures. None and empty: not known.
    """

    name: str
    source: str
    model: str
    hardware: str
    launch: str
    sampling: Mapping[str, Json] = field(default_factory=dict)
    thinking: Mapping[str, Json] = field(default_factory=dict)
    sampling_source: str = ""
    context_tokens: int | None = None
    context_source: str = ""
    expected_acceptance: float | None = None
    acceptance_source: str = ""
    memory_preset: str | None = None
    published: tuple[str, ...] = ()

    def fields(self, endpoint_type: str) -> dict[str, Json]:
        """Body fields of a request on a route; chats carry the thinking switch, completions have no template."""
        return {**self.sampling, **(self.thinking if endpoint_type == "chat" else {})}


def parse_deployment(document: Mapping[str, Json]) -> Deployment:
    """Read one deployment file; ValueError names what is wrong with it."""
    texts = {name: document.get(name) for name in ("name", "source", "model", "hardware", "launch")}
    if missing := [name for name, value in texts.items() if not isinstance(value, str)]:
        raise ValueError(f"a deployment needs {', '.join(missing)}: {document.get('name')!r}")
    sampling, thinking = document.get("sampling", {}), document.get("thinking", {})
    published = document.get("published", [])
    if not isinstance(sampling, Mapping) or not isinstance(thinking, Mapping) or not isinstance(published, list):
        raise ValueError(f"{texts['name']}: sampling and thinking are objects, published is a list")
    context, acceptance = document.get("context_tokens"), document.get("expected_acceptance")
    memory = document.get("memory_preset")
    return Deployment(
        **{name: str(value) for name, value in texts.items()},
        sampling=sampling,
        thinking=thinking,
        sampling_source=str(document.get("sampling_source", "")),
        context_tokens=context if isinstance(context, int) else None,
        context_source=str(document.get("context_source", "")),
        expected_acceptance=acceptance if isinstance(acceptance, float) else None,
        acceptance_source=str(document.get("acceptance_source", "")),
        memory_preset=memory if isinstance(memory, str) else None,
        published=tuple(str(name) for name in published),
    )
