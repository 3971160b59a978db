"""Automata over bytes as constraints over tokens, and constraints that follow one another."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.reference.constraint.automaton import Automaton, States
from harness.reference.constraint.base import Constraint, Mask


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vocabulary:
    """What the tokens spell, by id; ``marks`` are special tokens that are part of an answer's text, ``ends`` end it."""

    spelled: Sequence[bytes]
    marks: Collection[int]
    ends: Collection[int]

    def only(self, tokens: Collection[int]) -> Mask:
        """A mask of these tokens."""
        mask = np.zeros(len(self.spelled), np.bool_)
        mask[list(tokens)] = True
        return mask

    def plain(self) -> Mask:
        """Tokens of ordinary text: no special ones, none that could begin the spelling of one."""
        kept = [i for i, text in enumerate(self.spelled) if text and i not in self.marks and b"<" not in text]
        return self.only([i for i in kept if i not in self.ends])


class Grammar:
    """An automaton with the token masks of the states met so far."""

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary) -> None:
        self.automaton = automaton
        self.vocabulary = vocabulary
        self._masks: dict[States, Mask] = {}

    def mask(self, states: States) -> Mask:
        """Tokens whose bytes lead on; where a special token does, ordinary tokens must not begin to spell it."""
        known = self._masks.get(states)
        if known is not None:
            return known
        spelled, marks = self.vocabulary.spelled, self.vocabulary.marks
        fitting = [i for i, text in enumerate(spelled) if text and self.automaton.walk(states, text)]
        if any(i in marks for i in fitting):
            fitting = [i for i in fitting if i in marks or not spelled[i].startswith(b"<")]
        if self.automaton.accepts(states):
            fitting += self.vocabulary.ends
        self._masks[states] = mask = self.vocabulary.only(fitting)
        return mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Formed:
    """An answer that must fit a grammar; ``states`` is empty once an end token has closed it."""

    grammar: Grammar
    states: States

    def allowed(self) -> Mask | None:
        """Tokens that fit."""
        return self.grammar.mask(self.states)

    def advance(self, token: int) -> Constraint:
        """The state after a token."""
        if token in self.grammar.vocabulary.ends:
            return replace(self, states=frozenset())
        return replace(self, states=self.grammar.automaton.walk(self.states, self.grammar.vocabulary.spelled[token]))

    def finished(self) -> bool:
        """Whether the text is complete and cannot go on."""
        automaton = self.grammar.automaton
        return not self.states or (automaton.accepts(self.states) and automaton.stuck(self.states))


@dataclass(frozen=True, slots=True)
class Free:
    """Anything at all."""

    def allowed(self) -> Mask | None:
        """All tokens."""
        return None

    def advance(self, token: int) -> Constraint:
        """The same again."""
        return self

    def finished(self) -> bool:
        """Never."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Without:
    """What ``then`` allows but for some tokens; ``kept`` is the mask of all others."""

    kept: Mask
    then: Constraint

    def allowed(self) -> Mask | None:
        """Tokens of both."""
        mask = self.then.allowed()
        return self.kept if mask is None else np.asarray(mask & self.kept)

    def advance(self, token: int) -> Constraint:
        """The same, one token further."""
        return replace(self, then=self.then.advance(token))

    def finished(self) -> bool:
        """When what it is put on is."""
        return self.then.finished()


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """Anything until a certain token, from which on ``then`` holds."""

    token: int
    then: Constraint

    def allowed(self) -> Mask | None:
        """All tokens."""
        return None

    def advance(self, token: int) -> Constraint:
        """``then`` after the token, else the same again."""
        return self.then if token == self.token else self

    def finished(self) -> bool:
        """Never."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """Ordinary text of at most ``left`` tokens, closed by the token ``end``; then ``then`` holds."""

    vocabulary: Vocabulary
    left: int
    end: int
    then: Constraint

    def allowed(self) -> Mask | None:
        """Ordinary text and the closing token; only that when the room is used up."""
        if self.left == 0:
            return self.vocabulary.only([self.end])
        return np.asarray(self.vocabulary.plain() | self.vocabulary.only([self.end]))

    def advance(self, token: int) -> Constraint:
        """One token less, or what comes after."""
        return self.then if token == self.end else replace(self, left=self.left - 1)

    def finished(self) -> bool:
        """Never: something follows."""
        return False
