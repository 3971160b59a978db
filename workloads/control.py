"""A control before long texts are asked about: how long a value the model repeats, and how many characters a token has.

Its requests have the arm CONTROL and the labels `value` and `digits`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workloads.haystack import NUMBER, Document, Keys, Placed, document, needle
from workloads.phases import Past
from workloads.plan import Ask, Json, TextPrompt
from workloads.text import CHARS_PER_TOKEN, seeded

CONTROL = "control"
DIGITS = (7, 4)
NEEDLES = 6
TOKENS = 700
# Of NEEDLES, so that digits count as repeated.
ENOUGH = 3
# Body fields of chats whose answer has to come at once.
NO_THINKING: Mapping[str, Json] = {"chat_template_kwargs": {"enable_thinking": False}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What the control showed. digits: of the values that the model can repeat, None if it can repeat none."""

    digits: int | None
    chars_per_token: float


def control(seed: Json, name: str, ask: Callable[[str, Document, Placed, int], Ask]) -> list[Ask]:
    """Short texts that hold one kind of value each; `ask` makes the request for one needle, given its digits."""
    asks: list[Ask] = []
    for digits in DIGITS:
        text = f"{name}/control{digits}"
        rng = seeded(seed, CONTROL, text)
        keys = Keys(rng, digits)
        needles = [(needle(NUMBER, keys), index / NEEDLES) for index in range(NEEDLES)]
        made = document(rng, round(TOKENS * CHARS_PER_TOKEN), needles, opening(text))
        asks += [ask(text, made, each, digits) for each in made.placed]
    return asks


def sizes(past: Past) -> Sizes:
    """Read the control; without counts of tokens, CHARS_PER_TOKEN is taken."""
    asked = [ask for ask in past.asks if ask.arm == CONTROL]
    pairs = [
        (len(ask.prompt.text), seen.prompt_tokens)
        for ask in asked
        if isinstance(ask.prompt, TextPrompt) and (seen := past.seen.get(ask.key)) and seen.prompt_tokens
    ]
    ratio = sum(chars for chars, _ in pairs) / sum(tokens for _, tokens in pairs) if pairs else CHARS_PER_TOKEN
    repeated = {digits: sum(_told(past, ask) for ask in asked if ask.labels["digits"] == digits) for digits in DIGITS}
    return Sizes(digits=next((each for each in DIGITS if repeated[each] >= ENOUGH), None), chars_per_token=ratio)


def _told(past: Past, ask: Ask) -> bool:
    seen = past.seen.get(ask.key)
    return seen is not None and seen.text is not None and str(ask.labels["value"]) in seen.text


def opening(name: str) -> str:
    """What a text begins with: another one of the same length for every name."""
    return f"[{seeded('opening', name).getrandbits(48):012x}]"
