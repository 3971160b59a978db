"""How prompts begin: what two have in common, and the same prompt under another beginning."""

from __future__ import annotations

from collections.abc import Sequence

from workloads.material import Material, Segment
from workloads.plan import Prompt, TextPrompt, TokenPrompt

OPENING_TOKENS = 8


def common_length(one: Prompt, other: Prompt) -> int:
    """Length of the common beginning: token ids, or characters of text."""
    if isinstance(one, TokenPrompt) and isinstance(other, TokenPrompt):
        return _common_items(one.token_ids, other.token_ids)
    if isinstance(one, TextPrompt) and isinstance(other, TextPrompt):
        return _common_items(one.text, other.text)
    return 0


def _common_items(one: Sequence[object], other: Sequence[object]) -> int:
    """By halving, as slices compare faster than items."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def with_another_beginning(prompt: Prompt, material: Material, name: str) -> Prompt:
    """The same prompt, as long, from its second block on: the first tokens are others."""
    if isinstance(prompt, TokenPrompt):
        fresh = material.ids(name, 1024)
        first = next(token for token in fresh if token != prompt.token_ids[0])
        length = min(OPENING_TOKENS, len(prompt.token_ids))
        return TokenPrompt(token_ids=(first, *fresh[1:length], *prompt.token_ids[length:]))
    assert isinstance(prompt, TextPrompt)
    other = material.prompt([Segment(name=name, tokens=32)])
    assert isinstance(other, TextPrompt)
    opening = len("[0123456789abcdef]")
    return TextPrompt(text=other.text[:opening] + prompt.text[opening:])


def with_one_change(prompt: TokenPrompt, place: int) -> TokenPrompt:
    """The same prompt with another token, one of its own, at `place`."""
    ids = prompt.token_ids
    other = next(token for token in ids if token != ids[place])
    return TokenPrompt(token_ids=(*ids[:place], other, *ids[place + 1 :]))
