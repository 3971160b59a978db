"""The server's own counters, read from its Prometheus page."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from harness.clock import Clock
from harness.endpoint.dialects import DIALECTS
from harness.endpoint.dialects.base import Names, RankCounter
from harness.endpoint.dialects.prometheus import parse_counters, with_label
from harness.endpoint.errors import EndpointError
from harness.endpoint.side import TextSource
from harness.endpoint.target import METRICS_PATH
from harness.records import CounterSample, ErrorKind, RequestError
from harness.stats.ranks import Rank, at_rank

# Accepted drafts by their position in a step, which a label numbers from 0, as vLLM and llama.cpp have it.
_ACCEPTED_AT = "spec_decode_num_accepted_tokens_per_pos_total"
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_POSITION = re.compile(r'position="(\d+)"')
COUNTER_NAMES: Mapping[str, Mapping[str, Names]] = MappingProxyType(
    {name: dialect.counters for name, dialect in DIALECTS.items() if dialect.counters}
)
_SHARES = frozenset({"kv_usage", "state_usage"})
_ALREADY_SUMMED = 'cache_source="total"'


async def scrape(client: TextSource, clock: Clock, path: str = METRICS_PATH) -> CounterSample:
    """One sample of the server's counters, stamped when the page had come; `path` is the engine's own.

    Raises EndpointError if the server shows none, or a page that is not in the Prometheus text format.
    """
    page = await client.get_text(path)
    at_ns = clock.now_ns()
    try:
        values = await asyncio.to_thread(parse_counters, page)
    except ValueError as trouble:
        message = f"{path} is not in the Prometheus text format: {trouble}"
        raise EndpointError(RequestError(kind=ErrorKind.GARBAGE, message=message[:300])) from None
    if not values:
        raise EndpointError(RequestError(kind=ErrorKind.GARBAGE, message=f"{path} has no samples"))
    return CounterSample(at_ns=at_ns, values=values)


async def scrape_all(client: TextSource, clock: Clock, pages: Sequence[str]) -> CounterSample:
    """One sample of several pages; with more than one, each value bears its page's address as the label `page`.

    Raises EndpointError if any of them cannot be read.
    """
    if len(pages) == 1:
        return await scrape(client, clock, pages[0])
    values: dict[str, float] = {}
    for page in pages:
        sample = await scrape(client, clock, page)
        values.update({with_label(name, "page", page): value for name, value in sample.values.items()})
    return CounterSample(at_ns=clock.now_ns(), values=values)


def total(sample: CounterSample, engine: str, meaning: str) -> float | None:
    """What `meaning` stands at over all labels: a sum, or a mean for a share; None if the server does not show it.

    engine: a key of COUNTER_NAMES; meaning: a key of its table.
    """
    for names in COUNTER_NAMES.get(engine, {}).get(meaning, ()):
        found = [_values(sample, name) for name in names]
        if all(found):
            values = [value for group in found for value in group]
            return sum(values) / len(values) if meaning in _SHARES else sum(values)
    return None


def accepted_by_position(sample: CounterSample) -> dict[int, float]:
    """Accepted drafts by position in a step, from 0, over all other labels; empty if the server does not show them."""
    found: dict[int, float] = {}
    for key, value in sample.values.items():
        name, _, labels = key.partition("{")
        position = _POSITION.search(labels)
        if name.endswith(_ACCEPTED_AT) and position is not None:
            found[int(position.group(1))] = found.get(int(position.group(1)), 0.0) + value
    return found


def by_rank(sample: CounterSample, engine: str) -> dict[str, float]:
    """What each rank counted, under names of `at_rank`; empty if the engine's counters do not tell ranks apart.

    Several pages are several replicas.
    """
    dialect = DIALECTS.get(engine)
    if dialect is None or dialect.ranks is None:
        return {}
    found: dict[str, float] = {}
    for meaning, counter in dialect.ranks.counters.items():
        for labels, value in _labelled(sample, counter):
            rank = Rank(
                replica=_named(labels, ("page", *dialect.ranks.replica)), shard=_named(labels, dialect.ranks.shard)
            )
            found[at_rank(meaning, rank)] = found.get(at_rank(meaning, rank), 0.0) + value
    return found


def _labelled(sample: CounterSample, counter: RankCounter) -> Iterator[tuple[dict[str, str], float]]:
    """Its values with their labels; those without any belong to no rank."""
    for key, value in sample.values.items():
        name, _, text = key.partition("{")
        labels = dict(_LABEL.findall(text)) if name == counter.name else {}
        if labels and (counter.where is None or labels.get(counter.where[0]) in counter.where[1]):
            yield labels, value


def _named(labels: Mapping[str, str], names: Sequence[str]) -> str:
    return ",".join(f"{name}={labels[name]}" for name in names if name in labels)


def engine_of_counters(names: Mapping[str, float]) -> str | None:
    """The engine whose prefix the sample names bear; None if no known one does."""
    for dialect in DIALECTS.values():
        if any(name.startswith(prefix) for prefix in dialect.counter_prefixes for name in names):
            return dialect.name
    return None


def _values(sample: CounterSample, name: str) -> list[float]:
    return [
        value for key, value in sample.values.items() if key.partition("{")[0] == name and _ALREADY_SUMMED not in key
    ]
