"""How long prompts really are: found with a few recorded requests before anything is measured.

What a server counts for a prompt is the tokens of its text and an overhead of template and marks. The counts of pieces
come from a tokenizer, from the server's own, or, with neither, from the usage of one request each; the overhead always
comes from usage. Nothing is asked outside the history: the requests are a cell called "lengths".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.clock import Clock
from harness.drive.ports import Sender
from harness.drive.progress import NO_PROGRESS, Progress
from harness.drive.rounds import run_round
from harness.drive.spec import CellSpec
from harness.endpoint.discovery import token_counter, tokenize
from harness.endpoint.side import JsonSource
from harness.store import RunFolder, read_cell
from workloads.plan import Ask, Phase, Prompt, Step, TokenPrompt
from workloads.ruler import (
    IdsRuler,
    PiecePool,
    Ruler,
    TextRuler,
    additive,
    as_prompt,
    candidate_pieces,
    few_pieces,
    make_pool,
    nonce_length,
)
from workloads.sequence import Sequence as Plan
from workloads.text import CountTokens, seeded

LENGTHS = "lengths"
SAMPLE_TOKENS = (40, 333, 1000)
IDS_TEXT_TOKENS = 2_000
IDS_SAMPLES = (24, 200)


class NotExact(Exception):
    """Why prompts of an exact length cannot be made for this server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """How prompts are sized: the ruler, and the one-token pieces that nonces are made of (none for token ids)."""

    ruler: Ruler
    nonce_pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What is known before the first request: the pool if pieces could be counted, token ids if they can be sent."""

    pool: PiecePool | None
    token_ids: tuple[int, ...]


class Probing(Sender, JsonSource, Protocol):
    """A client that can send requests and read the server's own routes."""


async def find_sizing(
    run: RunFolder,
    client: Probing,
    clock: Clock,
    progress: Progress = NO_PROGRESS,
    *,
    count: CountTokens | None,
    seed: int,
    nonce: bool,
    text_only: bool = False,
) -> Sizing:
    """Measure how the server counts; a run that has the cell already is read instead of asked.

    count: an exact tokenizer, None if there is none. nonce: whether prompts get one. text_only: no token ids, because
    another model is asked the same. Raises NotExact.
    """
    chat = client.target.endpoint_type == "chat"
    known = await _known(client, count, ids=not chat and not text_only)
    probes = dict(_probes(known, chat=chat))
    if not run.is_finished(LENGTHS):
        spec = CellSpec(
            cell=LENGTHS, workload=LENGTHS, concurrency=1, seed=seed, cache_mode="keep", raw_every=1, scrape=False
        )
        await run_round(run, spec, _plan(probes), client, clock, progress)
    records = read_cell(run, LENGTHS).records
    usages = {record.invoke.key: record.complete.usage for record in records}
    counted = {key: usage.prompt_tokens for key, usage in usages.items() if usage is not None}
    return _sizing(
        known, {key: tokens for key, tokens in counted.items() if tokens is not None}, chat=chat, nonce=nonce
    )


async def _known(client: JsonSource, count: CountTokens | None, *, ids: bool) -> _Known:
    pieces = candidate_pieces()
    pool: PiecePool | None = None
    if count is not None:
        pool = _pool_by(count)
    elif (server_count := await token_counter(client)) is not None:
        counts = [await server_count(piece) for piece in pieces]
        pool = _pool(pieces, counts)
    token_ids: tuple[int, ...] = ()
    if ids and pool is not None:
        found = await tokenize(client, pool.text(seeded("ids"), IDS_TEXT_TOKENS))
        token_ids = found if found is not None else ()
    return _Known(pool=pool, token_ids=token_ids)


def _pool_by(count: CountTokens) -> PiecePool:
    try:
        pool = make_pool(candidate_pieces(), count)
    except ValueError as error:
        raise NotExact(str(error)) from None
    if not additive(pool, count):
        raise NotExact("the tokenizer merges over the borders of words, so lengths do not add up")
    return pool


def _pool(pieces: Sequence[str], counts: Sequence[int]) -> PiecePool:
    try:
        return PiecePool(pieces=tuple(pieces), counts=tuple(counts))
    except ValueError as error:
        raise NotExact(str(error)) from None


def _probes(known: _Known, *, chat: bool) -> Iterator[tuple[str, Prompt]]:
    """Prompts whose usage tells what is missing, by key."""
    if known.pool is None:
        pieces = few_pieces()
        yield from ((f"piece.{at}", as_prompt(piece, chat=chat)) for at, piece in enumerate(pieces))
        yield "pieces", as_prompt("".join(pieces), chat=chat)
        return
    for tokens in SAMPLE_TOKENS:
        yield f"text.{tokens}", as_prompt(known.pool.text(seeded("probe", tokens), tokens), chat=chat)
    if known.token_ids:
        yield from ((f"ids.{size}", TokenPrompt(token_ids=known.token_ids[:size])) for size in IDS_SAMPLES)


def _plan(probes: Mapping[str, Prompt]) -> Plan:
    steps: list[Step] = [
        Ask(key=key, prompt=prompt, max_tokens=1, phase=Phase.WARMUP) for key, prompt in probes.items()
    ]
    return Plan(name=LENGTHS, version=1, steps=tuple(steps), parameters={"probes": list(probes)})


def _sizing(known: _Known, counted: Mapping[str, int], *, chat: bool, nonce: bool) -> Sizing:
    pool, template_tokens = (
        _from_usage(counted) if known.pool is None else (known.pool, _overhead(counted, "text", SAMPLE_TOKENS))
    )
    if known.token_ids and all(f"ids.{size}" in counted for size in IDS_SAMPLES):
        own = _overhead(counted, "ids", IDS_SAMPLES)
        return Sizing(ruler=IdsRuler(token_ids=known.token_ids, template_tokens=own), nonce_pieces=())
    nonce_tokens = nonce_length(pool.single) if nonce else 0
    ruler = TextRuler(pool=pool, template_tokens=template_tokens, chat=chat, nonce_tokens=nonce_tokens)
    return Sizing(ruler=ruler, nonce_pieces=pool.single)


def _overhead(counted: Mapping[str, int], kind: str, sizes: Sequence[int]) -> int:
    """What every prompt has beside its text; the same for all sizes, or lengths are not exact here."""
    extra = {counted[f"{kind}.{size}"] - size for size in sizes if f"{kind}.{size}" in counted}
    if not extra:
        raise NotExact("the server does not report usage.prompt_tokens")
    if len(extra) > 1:
        raise NotExact(f"the server's counts are not those of the tokenizer: overheads of {sorted(extra)} tokens")
    return extra.pop()


def _from_usage(counted: Mapping[str, int]) -> tuple[PiecePool, int]:
    """Counts of pieces and the overhead, from what the server said of each piece alone and of all together.

    Alone, piece i is counted c_i + o; together sum(c_i) + o. Hence o = (sum of alone - together) / (pieces - 1).
    """
    pieces = few_pieces()
    alone = [counted.get(f"piece.{at}") for at in range(len(pieces))]
    together = counted.get("pieces")
    known = [tokens for tokens in alone if tokens is not None]
    if together is None or len(known) < len(pieces):
        raise NotExact("the server neither tokenizes nor reports usage.prompt_tokens of every request")
    overhead, rest = divmod(sum(known) - together, len(pieces) - 1)
    if rest or overhead < 0:
        raise NotExact("the server's counts of pieces do not add up")
    return _pool(pieces, [tokens - overhead for tokens in known]), overhead
