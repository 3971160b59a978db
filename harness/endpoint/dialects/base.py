"""What an engine's dialect is: data, and a few small functions that read what only this engine says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.endpoint.errors import EndpointError
from harness.endpoint.side import ControlPort, JsonSource
from harness.records import RequestError
from workloads.plan import Json

Object = Mapping[str, Json]
# Alternatives, newest name first; the names inside one alternative are added up.
Names = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What an engine says of itself: context_tokens is None where the list of models has the true one."""

    version: str | None
    details: Mapping[str, Json] = field(default_factory=dict)
    context_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushed:
    """What came of emptying a cache: error None means that the server says it is empty.

    path: the route that answered, None if none did. said: the start of its answer. busy: it may do so later.
    """

    path: str | None
    said: str = ""
    error: RequestError | None = None
    busy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a server was started with; None where it does not tell."""

    block_tokens: int | None = None
    chunk_tokens: int | None = None
    tensor_parallel: int | None = None
    data_parallel: int | None = None
    disaggregation: str | None = None
    state_dtype: str | None = None
    kv_dtype: str | None = None
    state_strategy: str | None = None
    cache_tokens: int | None = None
    state_slots: int | None = None
    speculation: str | None = None
    speculative_tokens: int | None = None
    host_tier: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCounter:
    """A counter that every rank keeps for itself. where: a label, and those of its values that are meant; None: all."""

    name: str
    where: tuple[str, tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """How an engine's counters tell its ranks apart.

    replica: labels of ranks that have a cache each. shard: labels of ranks that hold each request between them.
    counters: our meanings to counters that bear these labels.
    """

    replica: tuple[str, ...]
    shard: tuple[str, ...] = ()
    counters: Mapping[str, RankCounter]


Identify = Callable[[JsonSource], Awaitable[Identity]]
ReadSettings = Callable[[Mapping[str, Json]], Settings]
Recipe = Callable[[ControlPort], Awaitable[Flushed]]


async def identify_by_version(source: JsonSource) -> Identity:
    """The version of `GET /version`, which vLLM and TensorRT-LLM have; None without it."""
    return Identity(version=text_of((await object_at(source, "/version")).get("version")))


def no_settings(details: Mapping[str, Json]) -> Settings:
    """For engines that tell nothing."""
    return Settings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One engine.

    name: what TargetInfo.engine says. owners: `owned_by` in the list of models. counter_prefixes: of its counters.
    sign: a route and a field that only this engine's answer has. model_sign: a field of its entries in the list of
    models. counters: our meanings to its names. ranks: None where they do not tell ranks
    apart. flush: empties the cache. clear_l3: its route that empties the tier
    behind, to be asked before flush. salt_field: body field that names a cache of one's own. forbids_unknown_fields: an
    unknown body field is refused. *_fields: body fields that ask for something more. prompt_logprobs: ways of asking
    them, the preferred one first, as keys of `PROMPT_LOGPROBS`. score_path: the native route that scores a prompt.
    enable_with: capability name to the exact flag or field that switches it on.
    """

    name: str
    title: str
    owners: tuple[str, ...] = ()
    counter_prefixes: tuple[str, ...] = ()
    sign: tuple[str, str] | None = None
    model_sign: str | None = None
    identify: Identify = identify_by_version
    read_settings: ReadSettings = no_settings
    metrics_path: str = "/metrics"
    counters: Mapping[str, Names] = field(default_factory=dict)
    ranks: Ranks | None = None
    flush: Recipe | None = None
    clear_l3: Recipe | None = None
    salt_field: str | None = "cache_salt"
    bypass_fields: Mapping[str, Json] = field(default_factory=dict)
    forbids_unknown_fields: bool = False
    tier_fields: Mapping[str, Json] = field(default_factory=dict)
    token_id_fields: Mapping[str, Json] = field(default_factory=dict)
    speculation_fields: Mapping[str, Json] = field(default_factory=dict)
    prompt_logprobs: tuple[str, ...] = ("prompt_logprobs", "echo")
    score_path: str | None = None
    gateway: bool = False
    enable_with: Mapping[str, str] = field(default_factory=dict)


PROMPT_LOGPROBS: Mapping[str, Mapping[str, Json]] = {
    "prompt_logprobs": {"prompt_logprobs": 1},
    "echo": {"echo": True, "logprobs": 1},
}


async def object_at(source: JsonSource, *paths: str) -> Object:
    """The JSON object of the first path that has one, newest name first; empty if none has."""
    for path in paths:
        try:
            content = await source.get_json(path)
        except EndpointError:
            continue
        if isinstance(content, dict):
            return content
    return {}


def text_of(value: Json) -> str | None:
    """A text that says something; None for anything else."""
    return value if isinstance(value, str) and value else None


def whole_of(value: Json) -> int | None:
    """A positive whole number, also as text; None for anything else."""
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def first_of(details: Mapping[str, Json], names: Sequence[str]) -> Json:
    """The first of some fields that says something; versions rename them, the newest name stands first."""
    return next((details[name] for name in names if details.get(name) is not None), None)
