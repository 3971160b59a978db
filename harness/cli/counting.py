"""How prompts are sized: by a tokenizer file, the server's tokenizer, or a ratio of characters; which one is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from harness.endpoint.client import Client
from harness.endpoint.discovery import token_counter
from workloads.text import CountTokens, approximate_count

# Prose, code, JSON and a log line: the mixture a ratio is taken from.
SAMPLE = (
    "The scheduler admits a request once its state fits.\n"
    "def load_snapshot(slot: int) -> bytes:\n    return pool[slot]\n"
    '{"path": "src/cache/blocks.py", "matches": 17, "truncated": false}\n'
    "2026-03-14T09:26:53Z WARN evict: 212 blocks in 18 ms (budget 4096 MiB)\n"
) * 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """A token count and where it comes from; `exact` is False when it is a ratio."""

    count: CountTokens
    source: str
    exact: bool


def by_tokenizer_file(path_text: str) -> Counting:
    """Count with a Hugging Face tokenizer.json, given as the file or its folder; UsageError if it cannot be read."""
    path = Path(path_text)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise click.UsageError(
            f"--tokenizer: {file} does not exist; give a tokenizer.json or the folder that holds one"
        )
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises bare Exception
        raise click.UsageError(f"--tokenizer: {file} is not a tokenizer.json: {error}") from None
    return Counting(count=lambda text: len(tokenizer.encode(text).ids), source=f"tokenizer {file}", exact=True)


def by_characters() -> Counting:
    """Count four characters a token."""
    return Counting(count=approximate_count, source="4 characters a token (nothing better at hand)", exact=False)


async def by_server(client: Client) -> Counting:
    """Take the ratio of characters to tokens from one call of the server's /tokenize; fall back on `by_characters`."""
    count = await token_counter(client)
    tokens = await count(SAMPLE) if count is not None else 0
    if tokens == 0:
        return by_characters()
    ratio = len(SAMPLE) / tokens
    return Counting(
        count=_by_ratio(ratio), source=f"the server's tokenizer: {ratio:.2f} characters a token", exact=False
    )


def _by_ratio(characters_per_token: float) -> Callable[[str], int]:
    return lambda text: round(len(text) / characters_per_token)
