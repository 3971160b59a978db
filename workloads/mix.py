"""Several workloads in one run, each with its share of the sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from workloads.plan import Json
from workloads.sessions import Session, SessionFamily, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedClass:
    """One class of a mix; weight: its share of the sessions, relative to the others'."""

    name: str
    weight: float
    family: SessionFamily
    turns: int

    def __post_init__(self) -> None:
        if not self.weight > 0:
            raise ValueError(f"the weight of {self.name} must be above 0, got {self.weight:g}")


class MixFamily:
    """Sessions of all classes, in the order that keeps every beginning of the run nearest to the weights."""

    name = "mix"
    version = 1
    given_sessions = None

    def __init__(self, classes: Sequence[MixedClass]) -> None:
        names = [each.name for each in classes]
        if not classes or len(set(names)) != len(names):
            raise ValueError("a mix needs one or more classes, each with a name of its own")
        if any(each.family.given_sessions is not None for each in classes):
            raise ValueError("a trace has its own sessions and cannot be part of a mix")
        self._classes = tuple(classes)
        self._order: list[tuple[int, int]] = []

    @property
    def default_turns(self) -> int:
        """Of the longest class; every session has its own class's turns or, at the end of a plan, fewer."""
        return max(each.turns for each in self._classes)

    def spec(self) -> Mapping[str, Json]:
        return {
            "classes": [
                {
                    "name": each.name,
                    "weight": each.weight,
                    "workload": each.family.name,
                    "version": each.family.version,
                    "turns": each.turns,
                    **each.family.spec(),
                }
                for each in self._classes
            ]
        }

    def session(self, group: str, index: int, turns: int) -> Session:
        at, own_index = self._placed(index)
        chosen = self._classes[at]
        session = chosen.family.session(group, own_index, min(turns, chosen.turns))
        return replace(session, turns=tuple(_labelled(turn, chosen.name) for turn in session.turns))

    def _placed(self, index: int) -> tuple[int, int]:
        """Class of a session and its number within it; the class furthest behind its share comes next."""
        total = sum(each.weight for each in self._classes)
        while len(self._order) <= index:
            had = [sum(at == which for at, _ in self._order) for which in range(len(self._classes))]
            due = [(len(self._order) + 1) * each.weight / total for each in self._classes]
            which = max(range(len(self._classes)), key=lambda at: due[at] - had[at])
            self._order.append((which, had[which]))
        return self._order[index]


def _labelled(turn: Turn, name: str) -> Turn:
    return replace(turn, labels={**turn.labels, "class": name})
