"""Seeded text: words, sentences and questions of a wanted length, measured by a token counter that comes in."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from workloads.lexicon import ADJECTIVES, NOUNS, PREPOSITIONS, VERBS
from workloads.plan import ChatPrompt, Json, Message, Prompt, TextPrompt

CountTokens: TypeAlias = Callable[[str], int]

CHARS_PER_TOKEN = 4.0
SAMPLE = (
    "The coastal library stores 1,204 records; def load_index(path): return parse(path) "
    '{"status": "ok", "count": 17} [INFO] worker-3 flushed 88 events in 12.5 ms.'
)
_GOLDEN_FRACTION = (math.sqrt(5) - 1) / 2
_FIT_ROUNDS = 8
FIT_TOLERANCE_TOKENS = 3
_CUT_CHARS = 64


def approximate_count(text: str) -> int:
    """Tokens of `text` at four characters each, for when no tokenizer is at hand."""
    return math.ceil(len(text) / CHARS_PER_TOKEN)


def seeded(*path: Json) -> random.Random:
    """A random source of its own for every path, the same on every machine and in every process."""
    return random.Random("/".join(map(str, path)))


def spread_fraction(index: int, offset: float) -> float:
    """Number `index` of a sequence in [0, 1) that fills the interval evenly however early it stops.

    Additive recurrence with the golden ratio (Weyl's sequence).
    """
    return math.fmod(offset + index * _GOLDEN_FRACTION, 1.0)


def sentence(rng: random.Random) -> str:
    """One plain statement."""
    words = f"{rng.choice(ADJECTIVES)} {rng.choice(NOUNS)} {rng.choice(VERBS)} the {rng.choice(NOUNS)}"
    if rng.random() < 0.6:
        words += f" {rng.choice(PREPOSITIONS)} the {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}"
    if rng.random() < 0.25:
        words += f" in {rng.randint(1780, 2024)}"
    return f"The {words}."


def question(rng: random.Random) -> str:
    """One question that asks for a short explanation."""
    noun, other = rng.sample(NOUNS, 2)
    return rng.choice(
        (
            f"Why does the {rng.choice(ADJECTIVES)} {noun} depend on the {other}, and what would change without it?",
            f"How would you explain the difference between a {noun} and a {other} to a new {rng.choice(NOUNS)} keeper?",
            f"What are three reasons to move the {noun} {rng.choice(PREPOSITIONS)} the {other}?",
            f"Which part of the account of the {noun} is the hardest to check against the {other}, and why?",
        )
    )


def paragraphs(rng: random.Random, chars: int) -> str:
    """Prose of at least `chars` characters, in paragraphs of three to six sentences."""
    parts: list[str] = []
    written = 0
    while written < chars:
        part = " ".join(sentence(rng) for _ in range(rng.randint(3, 6)))
        parts.append(part)
        written += len(part) + 2
    return "\n\n".join(parts)


def cut_to_tokens(
    make: Callable[[int], str], tokens: int, count: CountTokens, tolerance_tokens: int = FIT_TOLERANCE_TOKENS
) -> str:
    """Text from `make(chars)` cut to about `tokens` tokens, rarely more than `tolerance_tokens` off (at least 3).

    `make` returns at least the asked number of characters. The cut falls on any character; a handful of calls of
    `count` are made.
    """
    sample = make(8 * _CUT_CHARS)
    ratio = len(sample) / max(1, count(sample))
    text = make(math.ceil(tokens * ratio * 1.3) + _CUT_CHARS)
    kept = min(len(text), max(1, round(tokens * ratio)))
    for _ in range(_FIT_ROUNDS):
        missing = tokens - count(text[:kept])
        if abs(missing) <= max(FIT_TOLERANCE_TOKENS, tolerance_tokens):
            break
        if missing > 0 and kept == len(text):
            text = make(2 * len(text))
        kept = min(len(text), max(1, kept + round(missing * ratio)))
    return text[:kept]


def words_of_tokens(rng: random.Random, words: Sequence[str], tokens: int, count: CountTokens) -> str:
    """Random words that together are `tokens` tokens, or as near as whole words come."""
    chosen: list[str] = []
    tokens_per_word = max(0.1, count(" ".join(words)) / len(words))
    missing = tokens
    for _ in range(_FIT_ROUNDS):
        wanted = len(chosen) + math.trunc(missing / tokens_per_word)
        chosen = chosen[:wanted] + [rng.choice(words) for _ in range(wanted - len(chosen))]
        missing = tokens - count(" ".join(chosen))
        if abs(missing) < tokens_per_word:
            break
    while missing < 0:
        chosen.pop()
        missing = tokens - count(" ".join(chosen))
    while missing > 0:
        chosen += ["a"] * missing
        missing = tokens - count(" ".join(chosen))
    return " ".join(chosen)


def prompt_tokens(prompt: Prompt, count: CountTokens) -> int:
    """Tokens of a prompt; a chat's are those of ChatML, which other templates miss by a few tokens a message."""
    if isinstance(prompt, ChatPrompt):
        return tools_tokens(prompt.tools, count) + sum(message_tokens(message, count) for message in prompt.messages)
    if isinstance(prompt, TextPrompt):
        return count(prompt.text)
    return len(prompt.token_ids)


def message_tokens(message: Message, count: CountTokens) -> int:
    """Tokens of one message in ChatML, its tool calls as Hermes' template writes them."""
    content = "" if message.content is None else message.content
    calls = "".join(
        f'<tool_call>\n{{"name": "{call.name}", "arguments": {call.arguments}}}\n</tool_call>'
        for call in message.tool_calls
    )
    return count(f"<|im_start|>{message.role}\n{content}{calls}<|im_end|>\n")


def tools_tokens(tools: Sequence[Mapping[str, Json]], count: CountTokens) -> int:
    """Tokens of tool definitions, as one line of JSON each."""
    return count("".join(f"{json.dumps(tool)}\n" for tool in tools)) if tools else 0
