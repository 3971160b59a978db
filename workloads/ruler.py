"""Prompts of an exact length by the server's own count, made of pieces whose counts add up.

A piece begins with a space and a letter and ends with a letter or a full stop, where the tokenizers in use always cut,
so the tokens of pieces in a row are the sum of theirs. Whether that holds for a server is measured, not assumed.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from workloads.lexicon import ADJECTIVES, NOUNS, PREPOSITIONS, VERBS
from workloads.plan import ChatPrompt, Json, Message, Prompt, TextPrompt, TokenPrompt
from workloads.text import CountTokens, seeded, sentence

LEAD = "Text:"
NONCE_BITS = 64
_SHORT_WORDS = (
    "a the of to and in is it for on with as by at or from an be no so we if up do he all one not but was are you can "
    "our out its has this that"
)
SENTENCES = 96
SENTENCES_PER_PARAGRAPH = 8
PARAGRAPHS = 96


@dataclass(frozen=True, kw_only=True)
class PiecePool:
    """Pieces of text with their tokens; `counts` go with `pieces`, at least one of which is one token long."""

    pieces: tuple[str, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.pieces) != len(self.counts) or min(self.counts, default=0) < 1:
            raise ValueError("every piece of a pool needs its number of tokens, at least 1")
        if len(self.single) < 2:
            raise ValueError("no two pieces of one token: text cannot be cut to an exact length with this tokenizer")

    @cached_property
    def single(self) -> tuple[str, ...]:
        """Pieces of one token."""
        return tuple(piece for piece, tokens in zip(self.pieces, self.counts, strict=True) if tokens == 1)

    @cached_property
    def _by_tokens(self) -> tuple[tuple[int, str], ...]:
        return tuple(sorted(zip(self.counts, self.pieces, strict=True)))

    @cached_property
    def _sorted_counts(self) -> tuple[int, ...]:
        return tuple(tokens for tokens, _ in self._by_tokens)

    @cached_property
    def _paragraphs(self) -> tuple[tuple[str, int], ...]:
        """Long pieces, so that long texts need few draws."""
        rng = seeded("paragraphs")
        drawn = [rng.choices(self._by_tokens, k=SENTENCES_PER_PARAGRAPH) for _ in range(PARAGRAPHS)]
        return tuple(("".join(piece for _, piece in each), sum(tokens for tokens, _ in each)) for each in drawn)

    def text(self, rng: random.Random, tokens: int) -> str:
        """Text of exactly `tokens` tokens; the same source begins a longer text alike, but for the last few pieces."""
        chosen: list[str] = []
        missing = tokens
        longest = max(length for _, length in self._paragraphs)
        while missing > longest:
            piece, length = rng.choice(self._paragraphs)
            chosen.append(piece)
            missing -= length
        while missing > 0:
            upto = bisect_right(self._sorted_counts, missing)
            length, piece = self._by_tokens[rng.randrange(upto)]
            chosen.append(piece)
            missing -= length
        return "".join(chosen)


def candidate_pieces() -> tuple[str, ...]:
    """What a pool is made of: common words first, many of which are one token, then sentences."""
    rng = seeded("pieces")
    words = dict.fromkeys([*_SHORT_WORDS.split(), *NOUNS[:60], *VERBS[:20], *ADJECTIVES[:20], *PREPOSITIONS])
    return (*(f" {word}" for word in words), *(f" {sentence(rng)}" for _ in range(SENTENCES)))


def few_pieces() -> tuple[str, ...]:
    """Pieces for servers whose count of every single piece has to be asked for with a request."""
    rng = seeded("few pieces")
    return (*(f" {word}" for word in _SHORT_WORDS.split()[:12]), *(f" {sentence(rng)}" for _ in range(12)))


def make_pool(pieces: Sequence[str], count: CountTokens) -> PiecePool:
    """The pool of pieces counted one by one; ValueError if the tokenizer allows no exact length."""
    return PiecePool(pieces=tuple(pieces), counts=tuple(count(piece) for piece in pieces))


class Ruler(Protocol):
    """Makes prompts and parts of prompts of an exact length."""

    @property
    def overhead_tokens(self) -> int:
        """Tokens of every prompt beside its text: the template, the mark of the beginning, the nonce."""
        ...

    def prompt(self, path: Json, tokens: int) -> Prompt:
        """A prompt of exactly `tokens` tokens, its own for every `path`; ValueError if it cannot be that short."""
        ...

    def joined(self, parts: Sequence[tuple[Json, int]]) -> Prompt:
        """A prompt of parts (path, tokens); `overhead_tokens` come on top. The same part is always the same text."""
        ...

    def as_json(self) -> Mapping[str, Json]:
        """What identifies the ruler in a plan."""
        ...


@dataclass(frozen=True, kw_only=True)
class TextRuler:
    """Prompts of text. template_tokens: of a prompt without text, as the server counts it. chat: as one user message.

    nonce_tokens: what the nonce before the text will take, 0 without one.
    """

    pool: PiecePool
    template_tokens: int
    chat: bool
    nonce_tokens: int = 0

    @property
    def overhead_tokens(self) -> int:
        return self.template_tokens + self.nonce_tokens

    def prompt(self, path: Json, tokens: int) -> Prompt:
        return self.joined([(path, _room(self.overhead_tokens, tokens))])

    def joined(self, parts: Sequence[tuple[Json, int]]) -> Prompt:
        return as_prompt("".join(self._part(path, tokens) for path, tokens in parts), chat=self.chat)

    def as_json(self) -> Mapping[str, Json]:
        return {"by": "text", "template_tokens": self.template_tokens, "nonce_tokens": self.nonce_tokens}

    def _part(self, path: Json, tokens: int) -> str:
        return self.pool.text(seeded("part", path), tokens)


@dataclass(frozen=True, kw_only=True)
class IdsRuler:
    """Prompts of token ids drawn from ordinary text; a nonce replaces ids and takes no room of its own."""

    token_ids: tuple[int, ...]
    template_tokens: int

    @property
    def overhead_tokens(self) -> int:
        return self.template_tokens

    @cached_property
    def _alphabet(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.token_ids)))

    def prompt(self, path: Json, tokens: int) -> Prompt:
        return self.joined([(path, _room(self.overhead_tokens, tokens))])

    def joined(self, parts: Sequence[tuple[Json, int]]) -> Prompt:
        return TokenPrompt(token_ids=tuple(token for path, tokens in parts for token in self._part(path, tokens)))

    def as_json(self) -> Mapping[str, Json]:
        return {"by": "token ids", "template_tokens": self.template_tokens}

    def _part(self, path: Json, tokens: int) -> list[int]:
        return seeded("part", path).choices(self._alphabet, k=tokens)


def as_prompt(text: str, *, chat: bool) -> Prompt:
    """Text as it is sent: in a chat after a lead that no template strips."""
    if not chat:
        return TextPrompt(text=text)
    return ChatPrompt(messages=(Message(role="user", content=f"{LEAD}{text}"),))


def forked(ruler: Ruler, prefix: Json, tail: Json, tokens: int, tail_tokens: int) -> Prompt:
    """A prompt of exactly `tokens` tokens that ends in `tail_tokens` of its own after a prefix that others may share.

    ValueError if it cannot be that short.
    """
    prefix_tokens = tokens - ruler.overhead_tokens - tail_tokens
    if prefix_tokens < 1:
        least = ruler.overhead_tokens + tail_tokens + 1
        raise ValueError(f"a prompt of {tokens} tokens has no room for a shared prefix; {least} is the shortest")
    return ruler.joined([(prefix, prefix_tokens), (tail, tail_tokens)])


def nonce_length(pieces: Sequence[str]) -> int:
    """How many one-token pieces make a nonce of NONCE_BITS bits."""
    return math.ceil(NONCE_BITS / math.log2(len(pieces)))


def with_nonce_pieces(prompt: Prompt, nonce: str, pieces: Sequence[str]) -> Prompt:
    """The prompt with a nonce of one-token pieces before its text; its length in tokens is known beforehand."""
    rng = random.Random(nonce)
    mark = "".join(rng.choice(pieces) for _ in range(nonce_length(pieces)))
    if isinstance(prompt, TextPrompt):
        return TextPrompt(text=mark + prompt.text)
    if isinstance(prompt, ChatPrompt):
        first, *others = prompt.messages
        content = (first.content or "").removeprefix(LEAD)
        return replace(prompt, messages=(replace(first, content=f"{LEAD}{mark}{content}"), *others))
    raise ValueError("token ids carry their nonce in ids of their own")


def additive(pool: PiecePool, count: Callable[[str], int]) -> bool:
    """Whether the counts of pieces add up in eight texts of up to 2,000 tokens."""
    rng = seeded("additive")
    return all(count(pool.text(rng, tokens)) == tokens for tokens in (1, 2, 17, 64, 127, 300, 1024, 2000))


def _room(overhead_tokens: int, tokens: int) -> int:
    if tokens <= overhead_tokens:
        raise ValueError(
            f"a prompt of {tokens} tokens cannot be made: {overhead_tokens} are taken by the chat template, the mark of"
            f" the beginning or the nonce, so {overhead_tokens + 1} is the shortest"
        )
    return tokens - overhead_tokens
