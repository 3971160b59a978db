"""Regular expressions over bytes, as nondeterministic automata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

States = frozenset[int]


@dataclass(frozen=True, slots=True)
class Literal:
    """Exactly these bytes."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Chars:
    """From ``least`` to ``most`` bytes of a set."""

    of: frozenset[int]
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Chain:
    """One after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of several."""

    options: tuple[Node, ...]


Node = Literal | Chars | Chain | Either

NOTHING = Literal(b"")


def optional(node: Node) -> Node:
    """A node or nothing."""
    return Either((node, NOTHING))


class Automaton:
    """Thompson's construction; a state of it is the set of places it may be in."""

    def __init__(self, node: Node) -> None:
        self._moves: list[dict[int, list[int]]] = []
        self._free: list[list[int]] = []
        first = self._place()
        self._last = self._build(node, first)
        self.start = self._closure([first])

    def step(self, states: States, byte: int) -> States:
        """Where a byte leads; empty when it is not allowed."""
        return self._closure([target for place in states for target in self._moves[place].get(byte, ())])

    def walk(self, states: States, text: bytes) -> States:
        """Where bytes lead; empty when they are not allowed."""
        for byte in text:
            if not states:
                break
            states = self.step(states, byte)
        return states

    def accepts(self, states: States) -> bool:
        """Whether the text may end here."""
        return self._last in states

    def stuck(self, states: States) -> bool:
        """Whether no byte leads on."""
        return not any(self._moves[place] for place in states)

    def _place(self) -> int:
        self._moves.append({})
        self._free.append([])
        return len(self._moves) - 1

    def _build(self, node: Node, start: int) -> int:
        """Adds a node from a place on and returns the place where it ends."""
        if isinstance(node, Literal):
            for byte in node.text:
                start = self._hop(start, [byte])
            return start
        if isinstance(node, Chars):
            return self._chars(node, start)
        if isinstance(node, Chain):
            for part in node.parts:
                start = self._build(part, start)
            return start
        end = self._place()
        for option in node.options:
            branch = self._place()
            self._free[start].append(branch)
            self._free[self._build(option, branch)].append(end)
        return end

    def _chars(self, node: Chars, start: int) -> int:
        end = self._place()
        for count in range(node.most + 1):
            if count >= node.least:
                self._free[start].append(end)
            if count < node.most:
                start = self._hop(start, sorted(node.of))
        return end

    def _hop(self, start: int, values: Sequence[int]) -> int:
        target = self._place()
        for byte in values:
            self._moves[start].setdefault(byte, []).append(target)
        return target

    def _closure(self, places: Sequence[int]) -> States:
        seen, waiting = set(places), list(places)
        while waiting:
            for target in self._free[waiting.pop()]:
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return frozenset(seen)
