"""Long texts with facts hidden in them: needles of several kinds, where each stands, and how to ask for it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from workloads.text import paragraphs

NUMBER, OVERWRITTEN, ORDINAL, UUID, CHAIN = "number", "overwritten", "ordinal", "uuid", "chain"
SPECIAL_KINDS = (OVERWRITTEN, ORDINAL, UUID, CHAIN)
FIRST_KEY, LAST_KEY = 10, 99
# Years occur in ordinary text: no value looks like one.
LOWEST_DIGIT = 3
TIMES_WRITTEN = 3
LINES = 3
MOST_HOPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Needle:
    """One thing to remember.

    statements: what the text says about it, in that order. ends_with: how a text goes on to it. question: the same for
    a chat. stale: values that were true before.
    """

    kind: str
    value: str
    statements: tuple[str, ...]
    ends_with: str
    question: str
    stale: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A needle with the place of its last statement in the text, in characters from the start."""

    needle: Needle
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The text and where its needles ended up, in the order in which they were given."""

    text: str
    placed: tuple[Placed, ...]


class Keys:
    """Keys and values that a document uses once each."""

    def __init__(self, rng: random.Random, digits: int) -> None:
        self._rng = rng
        self._digits = digits
        self._keys = rng.sample(range(FIRST_KEY, LAST_KEY + 1), LAST_KEY - FIRST_KEY + 1)
        self._used: set[str] = set()

    def key(self) -> str:
        """A name that no other fact of the document has."""
        return f"K{self._keys.pop()}"

    def value(self) -> str:
        """A number that no other fact of the document has."""
        while True:
            drawn = str(self._rng.randrange(LOWEST_DIGIT * 10 ** (self._digits - 1), 10**self._digits))
            if drawn not in self._used:
                self._used.add(drawn)
                return drawn

    def uuid(self) -> str:
        """A random UUID in its usual spelling."""
        digits = f"{self._rng.getrandbits(128):032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def below(self, bound: int) -> int:
        """A random whole number from 0 to `bound` - 1."""
        return self._rng.randrange(bound)


def needle(kind: str, keys: Keys) -> Needle:
    """A needle of a kind; ValueError for an unknown one."""
    makers = {NUMBER: _number, OVERWRITTEN: _overwritten, ORDINAL: _ordinal, UUID: _uuid, CHAIN: _chain}
    if kind not in makers:
        raise ValueError(f"there is no needle of kind {kind}")
    return makers[kind](keys)


def _number(keys: Keys) -> Needle:
    key, value = keys.key(), keys.value()
    return _of_key(NUMBER, key, value, (f"key {key} is {value}.",), "What is key {key}? Answer with its number alone.")


def _overwritten(keys: Keys) -> Needle:
    """Written several times; the last value counts."""
    key, values = keys.key(), [keys.value() for _ in range(TIMES_WRITTEN)]
    statements = tuple(f"key {key} is {value}." for value in values)
    asked = "Key {key} was given several values. Which is the latest? Answer with its number alone."
    return _of_key(OVERWRITTEN, key, values[-1], statements, asked, stale=tuple(values[:-1]))


def _uuid(keys: Keys) -> Needle:
    key, value = keys.key(), keys.uuid()
    return _of_key(UUID, key, value, (f"key {key} is {value}.",), "What is key {key}? Answer with its value alone.")


def _of_key(
    kind: str, key: str, value: str, statements: tuple[str, ...], asked: str, **more: tuple[str, ...]
) -> Needle:
    question = asked.format(key=key)
    return Needle(kind=kind, value=value, statements=statements, ends_with=f"key {key} is", question=question, **more)


def _ordinal(keys: Keys) -> Needle:
    """One of a few numbered lines that stand together."""
    first, asked = FIRST_KEY + keys.below(80), keys.below(LINES)
    values = [keys.value() for _ in range(LINES)]
    block = " ".join(f"line {first + index} is {value}." for index, value in enumerate(values))
    line = first + asked
    return Needle(
        kind=ORDINAL,
        value=values[asked],
        statements=(block,),
        ends_with=f"line {line} is",
        question=f"Which number stands in line {line} of the list? Answer with the number alone.",
    )


def _chain(keys: Keys) -> Needle:
    """A value found by going from key to key."""
    hops = 2 + keys.below(MOST_HOPS - 1)
    names = [keys.key() for _ in range(hops)]
    value = keys.value()
    links = [f"key {name} is the same as key {after}." for name, after in pairwise(names)]
    asked = "Which number is key {key} in the end? Answer with the number alone."
    return _of_key(CHAIN, names[0], value, (f"key {names[-1]} is {value}.", *reversed(links)), asked)


def document(rng: random.Random, chars: int, needles: Sequence[tuple[Needle, float]], opening: str) -> Document:
    """Ordinary text of about `chars` characters with the needles in it.

    Each needle comes with the share of the text, 0 to 1, at which its last statement begins; earlier statements stand
    at random places before that.
    """
    wanted = sorted(_statements(rng, chars, needles), key=lambda each: each[0])
    facts = sum(len(fact) + 1 for _, fact, _ in wanted)
    hay = paragraphs(rng, max(1, chars - len(opening) - facts))
    parts, written, used, placed = [opening], len(opening), 0, []
    for at, fact, owner in wanted:
        upto = max(used, _word_end(hay, used + max(0, at - written - 1)))
        piece = hay[used:upto].strip()
        if piece:
            parts.append(piece)
            written += len(piece) + 1
        used = upto
        if owner is not None:
            placed.append(Placed(needle=owner, begin=written + 1, end=written + 1 + len(fact)))
        parts.append(fact)
        written += len(fact) + 1
    rest = hay[used : _word_end(hay, used + max(0, chars - written - 1))].strip()
    given = [each for each, _ in needles]
    placed.sort(key=lambda each: given.index(each.needle))
    return Document(text=" ".join([*parts, rest]) if rest else " ".join(parts), placed=tuple(placed))


def _statements(
    rng: random.Random, chars: int, needles: Sequence[tuple[Needle, float]]
) -> list[tuple[int, str, Needle | None]]:
    """Every statement with its place; the needle stands beside the last one of it."""
    found: list[tuple[int, str, Needle | None]] = []
    for each, share in needles:
        last = round(share * chars)
        earlier = sorted(rng.randrange(last + 1) for _ in each.statements[1:])
        places = [*earlier, last]
        for index, (at, fact) in enumerate(zip(places, each.statements, strict=True)):
            found.append((at, fact, each if index == len(places) - 1 else None))
    return found


def _word_end(text: str, at: int) -> int:
    """The end of the word that `at` stands in."""
    end = text.find(" ", at)
    return len(text) if end < 0 or at >= len(text) else end
