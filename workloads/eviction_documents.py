"""The documents of the eviction plan: seeded prose that begins with a name and a code of its own.

The code serves twice. An answer that contains another document's code has read another request's memory; and a document
that ends by asking for its code shows whether its own memory is whole.
"""

from __future__ import annotations

from workloads.plan import Json
from workloads.text import CountTokens, cut_to_tokens, paragraphs, seeded

CODE_DIGITS = 7
QUESTION = "\n\nThe code of this document is"
_REACH_CHARS = 64


def code(seed: int, *path: Json) -> str:
    """The code of one document: seven digits, the first not 0."""
    return str(seeded(seed, "code", *path).randrange(10 ** (CODE_DIGITS - 1), 10**CODE_DIGITS))


def document(seed: int, *path: Json, chars: int) -> str:
    """At least `chars` characters of one document; a longer document begins with the shorter one."""
    name = f"{seeded(seed, 'name', *path).getrandbits(64):016x}"
    opening = f"{name} is the name of this document. The code of this document is {code(seed, *path)}.\n\n"
    return opening + paragraphs(seeded(seed, "document", *path), chars)


def document_of_tokens(seed: int, *path: Json, tokens: int, count: CountTokens, ending: str = "") -> str:
    """The document cut so that it and `ending` together are `tokens` tokens, or as near as a cut can come."""
    text = cut_to_tokens(lambda chars: document(seed, *path, chars=chars), tokens - count(ending), count)
    whole = document(seed, *path, chars=len(text) + 2 * _REACH_CHARS)
    cuts = sorted(
        range(max(1, len(text) - _REACH_CHARS), len(text) + _REACH_CHARS), key=lambda cut: abs(cut - len(text))
    )
    nearest = len(text)
    smallest = abs(count(whole[:nearest] + ending) - tokens)
    for cut in cuts:
        if smallest == 0:
            break
        missed = abs(count(whole[:cut] + ending) - tokens)
        if missed < smallest:
            nearest, smallest = cut, missed
    return whole[:nearest] + ending
