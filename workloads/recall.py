"""What has to be asked to know whether a long text is remembered, and as well from the cache as without it.

A control of a few hundred tokens first finds out how long a value the model can repeat, and how many characters make a
token. Then every document is asked about by each needle: cold, filled twice, from the cache; and, where the cache may
be emptied, first after that and once more. Labels: `document`, `needle`, `kind`, `value`, `stale` (values that were
true before), `asked`, `begin`, `end` (shares of the text), `digits`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from workloads.control import CONTROL, Sizes, control, opening, sizes
from workloads.haystack import NUMBER, SPECIAL_KINDS, UUID, Document, Keys, Needle, Placed, document, needle
from workloads.material import Material
from workloads.phases import Past, Phased
from workloads.plan import Ask, Flush, Json, Marker, Step, TextPrompt
from workloads.text import seeded

NAME = "recall"
VERSION = 1
COLD, FILL, HIT = "virgin", "fill", "hit"
RETURNED, REFILL, REFILLED, FLOOD = "returned", "refill", "refilled", "flood"
DEPTHS = 11
NEAR_BOUNDARY_TOKENS = 16
# What follows a document: the question, the template, the answer.
ROOM_TOKENS = 160
SHORTEST_TOKENS = 512
NUMBER_ANSWER_TOKENS, UUID_ANSWER_TOKENS, CHAT_ANSWER_TOKENS = 16, 56, 64
FLOOD_SHARE = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallOptions:
    """Sizes of a plan.

    name: of the round, so that its documents are new. longest_tokens: of a document with what follows it. block_tokens:
    where hits end, None if it is not known. chat: needles are asked for by questions. salt, bypass: what keeps a
    request from older cache entries; with neither, documents that have to be cold begin otherwise. flush: the cache can
    be emptied. flood_tokens: prompts that push everything out, None where that is not allowed, not known or too much.
    """

    name: str
    documents: int
    longest_tokens: int
    block_tokens: int | None = None
    chat: bool = False
    salt: bool = False
    bypass: bool = False
    flush: bool = False
    flood_tokens: int | None = None
    fields: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.documents < 1 or self.longest_tokens <= ROOM_TOKENS:
            raise ValueError(f"recall needs at least 1 document, and more than {ROOM_TOKENS} tokens")

    @property
    def evicts(self) -> bool:
        """Whether there is a way to empty the cache."""
        return self.flush or self.flood_tokens is not None

    def as_json(self) -> dict[str, Json]:
        """Plain data: what the plan depends on."""
        return {name: getattr(self, name) for name in self.__slots__}


def recall(material: Material, options: RecallOptions) -> Phased:
    """The plan of a round; it ends after the control if the model repeats nothing even there."""
    asking = _Asking(material, options)
    documents = range(options.documents)
    after = [partial(asking.returned, index) for index in documents] if options.evicts else []
    return Phased(
        name=NAME,
        version=VERSION,
        phases=(
            asking.control,
            *(partial(asking.cached, index) for index in documents),
            *((asking.evicted,) if after else ()),
            *after,
        ),
        parameters={**options.as_json(), "seed": material.seed},
    )


def document_tokens(options: RecallOptions, index: int) -> int:
    """Length of one document: from the longest to short ones, even in the logarithm."""
    longest = options.longest_tokens - ROOM_TOKENS
    shortest = min(SHORTEST_TOKENS, longest)
    share = index / max(1, options.documents - 1)
    tokens = round(longest * math.exp(share * math.log(shortest / longest)))
    block = options.block_tokens
    if block is None or tokens < 3 * block:
        return tokens
    # A little longer than whole blocks, so that a hit ends right before the question.
    return tokens // block * block + min(8, block // 4)


class _Asking:
    """Makes the requests of one plan."""

    def __init__(self, material: Material, options: RecallOptions) -> None:
        self._material = material
        self._options = options

    def control(self, past: Past) -> tuple[Step, ...]:
        """Short texts that hold one kind of value each, asked cold."""
        return tuple(control(self._material.seed, self._options.name, self._control))

    def _control(self, name: str, made: Document, each: Placed, digits: int) -> Ask:
        return self._cold(name, made, each, CONTROL, digits)

    def cached(self, index: int, past: Past) -> tuple[Step, ...]:
        """One document: every needle cold, the document filled twice, every needle from the cache."""
        known = sizes(past)
        if known.digits is None:
            return ()
        name, digits = f"{self._options.name}/d{index}", known.digits
        made = self._document(index, known)
        cold = [self._cold(name, made, each, COLD, digits) for each in made.placed]
        fills = [self._ask(name, made, each, FILL, digits) for each in made.placed[:2]]
        return (*cold, *fills, *(self._ask(name, made, each, HIT, digits) for each in made.placed))

    def evicted(self, past: Past) -> tuple[Step, ...]:
        """Empty the cache: by its own means, else by as many other prompts as it holds."""
        if sizes(past).digits is None:
            return ()
        marker = Marker(key=f"{self._options.name}/evict", text="flush" if self._options.flush else "flood")
        if self._options.flush:
            return (marker, Flush(key=f"{self._options.name}/flush"))
        return (marker, *self._flood(sizes(past).chars_per_token))

    def returned(self, index: int, past: Past) -> tuple[Step, ...]:
        """One document after its eviction: one needle, which fills it again, then every needle from the cache."""
        known = sizes(past)
        if known.digits is None:
            return ()
        name, digits = f"{self._options.name}/d{index}", known.digits
        made = self._document(index, known)
        first, second, *_ = made.placed
        back = (self._ask(name, made, first, RETURNED, digits), self._ask(name, made, second, REFILL, digits))
        return (*back, *(self._ask(name, made, each, REFILLED, digits) for each in made.placed))

    def _document(self, index: int, known: Sizes) -> Document:
        """Two numbers, one of them at a block's boundary, and a needle of a harder kind."""
        name = f"{self._options.name}/d{index}"
        rng = seeded(self._material.seed, NAME, name)
        tokens = document_tokens(self._options, index)
        assert known.digits is not None
        keys = Keys(rng, known.digits)
        depth = index % DEPTHS / (DEPTHS - 1) * (1 - 2 * NEAR_BOUNDARY_TOKENS / tokens)
        needles = [
            (needle(NUMBER, keys), depth),
            (needle(NUMBER, keys), self._boundary(index, tokens) / tokens),
            (needle(SPECIAL_KINDS[index % len(SPECIAL_KINDS)], keys), rng.random() * 0.9),
        ]
        return document(rng, round(tokens * known.chars_per_token), needles, opening(name))

    def _boundary(self, index: int, tokens: int) -> int:
        """Where the second number begins: right before the last boundary of a block, or one in the middle."""
        block = self._options.block_tokens
        if block is None or tokens < 3 * block:
            return max(0, tokens - 2 * NEAR_BOUNDARY_TOKENS)
        blocks = tokens // block
        at = (blocks if index % 2 == 0 else max(1, blocks // 2)) * block
        return max(0, at - NEAR_BOUNDARY_TOKENS // 2)

    def _flood(self, chars_per_token: float) -> list[Step]:
        assert self._options.flood_tokens is not None
        length = self._options.longest_tokens - ROOM_TOKENS
        number = -(-round(FLOOD_SHARE * self._options.flood_tokens) // length)
        return [
            self._stranger(f"{self._options.name}/flood{index}", length, chars_per_token) for index in range(number)
        ]

    def _stranger(self, name: str, tokens: int, chars_per_token: float) -> Ask:
        rng = seeded(self._material.seed, NAME, name)
        made = document(rng, round(tokens * chars_per_token), [], opening(name))
        return Ask(key=name, prompt=TextPrompt(text=made.text), max_tokens=1, arm=FLOOD, expected_prompt_tokens=tokens)

    def _cold(self, name: str, made: Document, each: Placed, arm: str, digits: int) -> Ask:
        """A request that no cache entry can serve."""
        ask = self._ask(name, made, each, arm, digits)
        if self._options.salt:
            fresh: Mapping[str, Json] = {"cache_salt": self._material.salt(ask.key)}
        elif self._options.bypass:
            fresh = {"cache_prompt": False}
        else:
            mark = opening(ask.key)
            text = made.text.replace(opening(name), mark, 1)
            return replace(ask, prompt=self._prompt(text, each.needle))
        return replace(ask, parameters={**ask.parameters, **fresh})

    def _ask(self, name: str, made: Document, each: Placed, arm: str, digits: int) -> Ask:
        position = made.placed.index(each)
        return Ask(
            key=f"{name}/{arm}/{position}",
            prompt=self._prompt(made.text, each.needle),
            max_tokens=self._answer_tokens(each.needle),
            session=name,
            arm=arm,
            parameters=self._options.fields,
            labels={
                "document": name,
                "needle": position,
                "kind": each.needle.kind,
                "value": each.needle.value,
                "stale": each.needle.stale,
                "asked": each.needle.question if self._options.chat else each.needle.ends_with,
                "begin": round(each.begin / len(made.text), 5),
                "end": round(each.end / len(made.text), 5),
                "digits": digits,
            },
        )

    def _prompt(self, text: str, each: Needle) -> TextPrompt:
        if self._options.chat:
            return TextPrompt(text=f"{text}\n\n{each.question}")
        return TextPrompt(text=f"{text} {each.ends_with}")

    def _answer_tokens(self, each: Needle) -> int:
        if self._options.chat:
            return CHAT_ANSWER_TOKENS
        return UUID_ANSWER_TOKENS if each.kind == UUID else NUMBER_ANSWER_TOKENS
