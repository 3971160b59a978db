"""Counting parameters from a config: total, active per token, with and without the embedding tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Part(StrEnum):
    """The parts a count is broken down into."""

    EMBEDDING = "input embedding"
    HEAD = "output head"
    ATTENTION = "attention layers"
    RECURRENT = "recurrent layers"
    DENSE = "dense feed-forward"
    ROUTED = "routed experts"
    SHARED = "shared experts"
    ROUTER = "routers"
    NORMS = "norms"
    MTP = "MTP layer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """Parameters of one part: all of them, and those that one token passes through."""

    part: Part
    total: int
    active: int


def whole(part: Part, count: int) -> Component:
    """A part that every token passes through entirely."""
    return Component(part=part, total=count, active=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterCount:
    """A model's parameters by part. The MTP layer is apart: engines load it for speculation only."""

    components: tuple[Component, ...]

    def by_part(self) -> Mapping[Part, Component]:
        """Total and active parameters of each part, added over the layers."""
        sums: dict[Part, Component] = {}
        for item in self.components:
            known = sums.get(item.part, Component(part=item.part, total=0, active=0))
            sums[item.part] = Component(
                part=item.part, total=known.total + item.total, active=known.active + item.active
            )
        return sums

    def total(self, *, without: Sequence[Part] = ()) -> int:
        """All parameters except the MTP layer and the parts named."""
        return sum(c.total for c in self.components if c.part is not Part.MTP and c.part not in without)

    def active(self, *, without: Sequence[Part] = ()) -> int:
        """Parameters one token passes through, except the MTP layer and the parts named."""
        return sum(c.active for c in self.components if c.part is not Part.MTP and c.part not in without)

    @property
    def mtp(self) -> int:
        """Parameters of the multi-token prediction layers."""
        return sum(c.total for c in self.components if c.part is Part.MTP)

    def active_countings(self) -> Mapping[str, int]:
        """The ways in which "active parameters" is counted, by what each says."""
        return {
            "everything a token passes through, both embedding tables included": self.active(),
            "without the input embedding (a look-up, not a multiplication)": self.active(without=[Part.EMBEDDING]),
            "without input embedding and output head": self.active(without=[Part.EMBEDDING, Part.HEAD]),
            "without the routed experts (the part every token shares)": self.active(without=[Part.ROUTED]),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The counting that comes nearest to a published figure, and how far off it is (+0.02: counted 2% more)."""

    counting: str
    counted: int
    published: float
    deviation: float


def explain_active(count: ParameterCount, published: float) -> Explanation:
    """Say which counting of the active parameters a published figure comes from, as far as the config can tell."""
    counting, counted = min(count.active_countings().items(), key=lambda item: abs(item[1] - published))
    return Explanation(
        counting=counting, counted=counted, published=published, deviation=(counted - published) / published
    )
